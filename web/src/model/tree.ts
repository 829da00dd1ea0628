/**
 * The list of streams as a tree by path, filtered by what was typed.
 *
 * Rows come out flat, in the order they are shown, with their depth: groups, streams, and the channels of
 * those streams that are opened.
 */
import type { Stream } from '../wire/messages';
import { STEER_PREFIX } from './steering-marks';

/** One row of the list. */
export type Row =
  | { readonly kind: 'group'; readonly key: string; readonly depth: number; readonly label: string; readonly streams: number }
  | { readonly kind: 'stream'; readonly key: string; readonly depth: number; readonly label: string; readonly stream: Stream;
      readonly open: boolean }
  | { readonly kind: 'channel'; readonly key: string; readonly depth: number; readonly label: string; readonly unit: string;
      readonly stream: Stream };

/** Content of the list of streams. */
export interface TreeOptions {
  readonly filter: string;
  /** Groups that are folded, by path. */
  readonly folded: ReadonlySet<string>;
  /** Streams whose channels are shown, by name. */
  readonly opened: ReadonlySet<string>;
}

/** Returns whether every word of the filter occurs in the stream's name, labels, station or units. */
export function matches(stream: Stream, filter: string): boolean {
  const words = filter.toLowerCase().split(/\s+/).filter((word) => word !== '');
  if (words.length === 0) return true;
  const labels = stream.labels.map((pair) => pair.join('=')).join(' ');
  const channels = stream.channels.map((channel) => `${channel.name} ${channel.unit}`).join(' ');
  const hay = `${stream.name} ${stream.station} ${stream.health} ${labels} ${channels}`.toLowerCase();
  return words.every((word) => hay.includes(word));
}

/** Returns the rows of the list. */
export function treeRows(streams: readonly Stream[], options: TreeOptions): readonly Row[] {
  const shown = streams.filter((stream) => matches(stream, options.filter));
  const groups = new Map<string, Stream[]>();
  for (const stream of shown.sort(byName)) {
    const group = groupOf(stream);
    const members = groups.get(group);
    if (members === undefined) groups.set(group, [stream]);
    else members.push(stream);
  }
  return [...groups].flatMap(([group, members]) => groupRows(group, members, options));
}

const groupOf = ({ name }: Stream): string => name.slice(0, Math.max(0, name.lastIndexOf('/')));

const byName = (a: Stream, b: Stream): number => collator.compare(groupOf(a), groupOf(b)) || collator.compare(a.name, b.name);

/** Made once: a list of a thousand streams is compared ten thousand times, twice a second. */
const collator = new Intl.Collator('en', { numeric: true });

function groupRows(group: string, members: readonly Stream[], options: TreeOptions): readonly Row[] {
  if (group === '') return members.flatMap((stream) => streamRows(stream, 0, options));
  const head: Row = { kind: 'group', key: `group ${group}`, depth: 0, label: group, streams: members.length };
  // A filter takes precedence over folding, otherwise a match would stay hidden.
  if (options.folded.has(group) && options.filter === '') return [head];
  return [head, ...members.flatMap((stream) => streamRows(stream, 1, options))];
}

function streamRows(stream: Stream, depth: number, options: TreeOptions): readonly Row[] {
  const label = stream.name.split('/').at(-1) ?? stream.name;
  const open = stream.channels.length > 1 && options.opened.has(stream.name);
  const row: Row = { kind: 'stream', key: `stream ${stream.name}`, depth, label, stream, open };
  if (!open) return [row];
  const channels = stream.channels.map((channel): Row => ({
    kind: 'channel',
    key: `channel ${stream.name} ${channel.name}`,
    depth: depth + 1,
    label: channel.name,
    unit: channel.unit,
    stream,
  }));
  return [row, ...channels];
}

/** The most channels that one press plots together. */
const TOGETHER = 8;

/** Returns the channels plotted for a whole stream: all that share the first one's unit. */
export function channelsToPlot(stream: Stream): readonly string[] {
  const unit = stream.channels[0]?.unit ?? '';
  return stream.channels.filter((channel) => channel.unit === unit).slice(0, TOGETHER).map((channel) => channel.name);
}

/** Returns the key of the row `by` steps from `key` in the list, stopping at its ends. */
export function step(rows: readonly Row[], key: string | null, by: number): string | null {
  if (rows.length === 0) return null;
  const at = rows.findIndex((row) => row.key === key);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by));
  return rows[next]?.key ?? null;
}

/** Number of default plots. */
const FIRST = 4;

/** Returns whether a channel of a stream is a field or an image, of which a plot shows one element. */
const hasFields = (stream: Stream): boolean => stream.elementsPerSample > stream.channels.length;

/** Returns the default plots: the first stream of each of the first few paths, traces before fields. Commands to apps are marks in all of them. */
export function firstPlots(streams: readonly Stream[]): readonly (readonly { readonly stream: string; readonly channel: string }[])[] {
  const seen = new Set<string>();
  const first: Stream[] = [];
  const shown = streams.filter((each) => each.channels.length > 0 && each.health !== 'stale' && !each.name.startsWith(STEER_PREFIX));
  for (const stream of shown.sort((a, b) => Number(hasFields(a)) - Number(hasFields(b)) || byName(a, b))) {
    const group = groupOf(stream);
    if (seen.has(group) || first.length >= FIRST) continue;
    seen.add(group);
    first.push(stream);
  }
  return first.sort(byName).map((stream) => channelsToPlot(stream).map((channel) => ({ stream: stream.name, channel })));
}
