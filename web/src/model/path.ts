/**
 * The path of a stream as places in order: publisher, sender's host, network, receiver's host, reader, archive, this
 * browser, and beside the path the unexplained and unsettled losses. Of a relayed stream the hops before come first,
 * and the last relay is at the publisher's place.
 *
 * Every rung of the ladder belongs to exactly one place, so the picture's sum is the account's. Nothing here is
 * measured or recomputed: counts are the ladder's, rates the catalogue's.
 */
import type { Stream } from '../wire/messages';
import { hopWords, type Hop } from './hops';
import type { Ladder, Rung } from './ladder';
import { short } from './quantity';
import type { Place } from './stage';

/** A place of the picture, in the order of the path. */
export const PLACES = ['publisher', 'sender', 'network', 'receiver', 'reader', 'archive', 'browser', 'unexplained', 'unsettled'] as const;
type OwnPlace = (typeof PLACES)[number];
/** One of them, or an earlier hop of a relayed stream. */
export type PlaceName = OwnPlace | `hop-${number}`;

const WORDS: Readonly<Record<OwnPlace, string>> = {
  publisher: 'publisher', sender: "sender's host", network: 'network', receiver: "receiver's host", reader: 'reader',
  archive: 'archive', browser: 'this browser', unexplained: 'unexplained', unsettled: 'not settled',
};

/** A place with what was lost there. */
export interface PathPlace {
  readonly name: PlaceName;
  readonly words: string;
  /** Decides the colour. */
  readonly colour: Place;
  /** Stages of this place, in the order of the path. */
  readonly rungs: readonly Rung[];
  /** Lost here, in elements. */
  readonly elements: number;
  /** The account would know: what an archive could not write its recorder counts, and not a reader. */
  readonly counted: boolean;
  /** Something was lost here lately. */
  readonly recent: boolean;
  /** Of an earlier hop of a relayed stream; null for the places of the last one. */
  readonly hop: Hop | null;
}

/** The picture. */
export interface Path {
  /** Places; without the archive if there is none. */
  readonly places: readonly PathPlace[];
  /** Missing on the path to the reader, explained or not: the law's side without delivered and in flight. */
  readonly missing: number;
}

/** Further input of the picture. */
export interface Surroundings {
  /** The monitor reads an archive. */
  readonly archive: boolean;
  readonly isRecent: (rung: Rung) => boolean;
  /** The hops of a relayed stream before the one that is read. */
  readonly hops?: readonly Hop[];
}

/** Returns the picture of a ladder. */
export function pathOf(ladder: Ladder, { archive, isRecent, hops = [] }: Surroundings): Path {
  const before = hops.map((hop): PathPlace => {
    const rungs = ladder.rungs.filter(({ stage }) => stage.hop === hop.number);
    const leading = rungs.reduce<Rung | null>((most, rung) => (most === null || rung.elements > most.elements ? rung : most), null);
    return {
      name: `hop-${hop.number}`, words: hopWords(hop), colour: leading?.stage.place ?? 'unsettled', rungs,
      elements: rungs.reduce((sum, rung) => sum + rung.elements, 0), counted: true, recent: rungs.some(isRecent), hop,
    };
  });
  const places = PLACES.map((name): PathPlace => {
    const rungs = ladder.rungs.filter((rung) => placeOf(rung) === name);
    const elements = rungs.reduce((sum, rung) => sum + rung.elements, 0);
    return {
      hop: null, name, words: name === 'publisher' && hops.length > 0 ? 'relay' : WORDS[name], colour: name === 'archive' ? 'browser' : name, rungs, elements,
      counted: name !== 'archive' || elements > 0, recent: rungs.some(isRecent),
    };
  });
  const shown = places.filter(({ name, elements }) => name !== 'archive' || archive || elements > 0);
  return { places: [...before, ...shown], missing: ladder.lost + ladder.unexplained + ladder.unsettled };
}

function placeOf({ stage }: Rung): OwnPlace | null {
  if (stage.hop !== undefined) return null;
  if (stage.name === 'archive_write') return 'archive';
  // The publisher withholds what it plants as lost.
  return stage.place === 'injected' ? 'publisher' : stage.place;
}

/** Rate of the stream, as reported by the server. */
export interface Flow {
  /** Out of the publisher: what its schema states, or an empty text where it states nothing. */
  readonly stated: string;
  /** Into the reader: measured over some seconds. */
  readonly arriving: string;
}

/** Returns what flows in a stream. */
export function flowOf({ nominalRate, samplesPerSecond }: Pick<Stream, 'nominalRate' | 'samplesPerSecond'>): Flow {
  return {
    stated: nominalRate > 0 ? `states ${short(nominalRate, 'samples/s')}` : '',
    arriving: `${short(samplesPerSecond, 'samples/s')} arrive`,
  };
}

/** Returns the place that an arrow, Home or End leads to from the `at`-th of `count`; null for another key. */
export function stepTo(key: string, at: number, count: number): number | null {
  switch (key) {
    case 'ArrowRight': return Math.min(count - 1, at + 1);
    case 'ArrowLeft': return Math.max(0, at - 1);
    case 'Home': return 0;
    case 'End': return count - 1;
    default: return null;
  }
}
