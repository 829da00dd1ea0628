/**
 * The account of the whole bus as one sentence, for the top bar.
 */
import type { DiskLevel, Stream } from '../wire/messages';
import { short } from './quantity';
import type { Place, Stage } from './stage';
import { attackText, type Attack } from './unauthentic';

/** State of the bus; each has its own shape in addition to its colour. */
export type Mood = 'quiet' | 'good' | 'warn' | 'bad';

/** The sentence and its mood. */
export interface Sentence {
  readonly mood: Mood;
  readonly text: string;
  /** The stream it speaks of, or null for the whole bus. */
  readonly stream: string | null;
}

/** Returns the stream with the largest loss, or null if there is none. */
export function worstStream(streams: readonly Stream[]): Stream | null {
  let worst: Stream | null = null;
  for (const stream of streams) {
    if (stream.health === 'losing' && (worst === null || stream.lostLastHour > worst.lostLastHour)) worst = stream;
  }
  return worst;
}

/** What the top bar says besides the streams. */
export interface Alarms {
  readonly disk: DiskLevel | null;
  readonly attack: Attack | null;
}

/**
 * Returns the text of the top bar: an attack before everything else, and the alarm of the archive's disk, if there is one.
 *
 * `stageOf` names the leading stage of a stream's loss where it is known yet.
 */
export function sentence(streams: readonly Stream[], stageOf: (stream: string) => Stage | null, { disk, attack }: Alarms): Sentence {
  if (attack !== null) return { mood: 'bad', text: attackText(attack), stream: attack.stream.name };
  const said = ofStreams(streams, stageOf);
  if (disk?.alarm !== true) return said;
  const used = Math.floor((1 - disk.freeBytes / Math.max(1, disk.sizeBytes)) * 100);
  return { ...said, mood: 'warn', text: `${said.text} · archive disk ${used} % full, ${short(disk.freeBytes, 'B')} free` };
}

function ofStreams(streams: readonly Stream[], stageOf: (stream: string) => Stage | null): Sentence {
  if (streams.length === 0) return { mood: 'quiet', text: 'No streams yet', stream: null };
  const worst = worstStream(streams);
  if (worst !== null) return { mood: 'warn', text: lossText(worst, stageOf(worst.name)), stream: worst.name };
  const rate = streams.reduce((sum, stream) => sum + stream.samplesPerSecond, 0);
  const lost = streams.reduce((sum, stream) => sum + inSamples(stream, stream.lostLastHour), 0);
  const silent = streams.filter((stream) => stream.health === 'stale').length;
  const parts = [
    `${streams.length} ${streams.length === 1 ? 'stream' : 'streams'}`,
    short(rate, 'samples/s'),
    `${short(lost)} missing in the last hour`,
    ...(silent > 0 ? [`${silent} silent`] : []),
  ];
  return { mood: silent > 0 ? 'warn' : 'good', text: parts.join(' · '), stream: null };
}

function lossText(stream: Stream, stage: Stage | null): string {
  const lost = short(Math.ceil(inSamples(stream, stream.lostElements)));
  const all = short(stream.nextIndex - stream.firstIndex, 'samples');
  const where = stage === null ? '' : ` (${stage.words}${stage.hop === undefined ? owner(stage.place, stream.station) : ''})`;
  return `${spoken(stream.name)} lost ${lost} of ${all}${where}`;
}

const inSamples = (stream: Stream, elements: number): number => elements / stream.elementsPerSample;

/** The last two words of a path are the usual name of a signal. */
function spoken(name: string): string {
  return name.split('/').slice(-2).join(' ');
}

/** Owner of a stage: stages before the network belong to the station, those behind it to this host. */
function owner(place: Place, station: string): string {
  if (place === 'receiver' || place === 'reader') return ' of this monitor';
  return station !== '' && (place === 'sender' || place === 'publisher') ? ` of ${station}` : '';
}
