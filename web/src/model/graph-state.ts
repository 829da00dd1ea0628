/**
 * What the editor says of a node: its problems, how it fares, and what applying the draft does to it.
 */
import type { Stream } from '../wire/messages';
import { fields, list, text } from '../wire/json';
import { isEdited, nameOf, type Draft, type DraftNode, type RunningNode } from './graph-draft';
import { faultOf, type Kind } from './graph-kinds';
import { count, short } from './quantity';

/** A problem that the server found. */
export interface Problem {
  /** Null if it is the graph's as a whole. */
  readonly node: string | null;
  readonly error: string;
}

/** Reads the problems in a refusal; one that names none is of the graph as a whole. */
export function readProblems(said: unknown): readonly Problem[] {
  const from = fields(said);
  const found = list(from, 'problems').map(fields).map((each) => ({ node: typeof each['node'] === 'string' ? text(each, 'node') : null, error: text(each, 'error') }));
  if (found.length > 0) return found;
  const error = [text(from, 'error'), text(from, 'help')].filter((part) => part !== '').join('\n');
  return error === '' ? [] : [{ node: null, error }];
}

/** Returns what is wrong with a node: first what the page can tell, else what the server found. */
export function problemsOf(node: DraftNode, kinds: readonly Kind[], found: readonly Problem[]): readonly string[] {
  if (node.removed) return [];
  const kind = kinds.find((each) => each.kind === text(node.value, 'kind'));
  const own = [...(nameOf(node.value) === '' ? ['name is needed: it is that of the stream'] : []), ...(kind?.settings ?? []).map((setting) => faultOf(setting, node.value[setting.name])).filter((fault) => fault !== '')];
  return own.length > 0 ? own : found.filter((problem) => problem.node === nameOf(node.value)).map(({ error }) => error);
}

/** Returns the problems that belong to no node of the draft. */
export function otherProblems(draft: Draft, found: readonly Problem[]): readonly string[] {
  const names = new Set(draft.nodes.filter(({ removed }) => !removed).map(({ value }) => nameOf(value)));
  return found.filter(({ node }) => node === null || !names.has(node)).map(({ node, error }) => (node === null ? error : `${node}: ${error}`));
}

/** What applying the draft does to a node. */
export type Mark = 'new' | 'changed' | 'ends' | 'stays';

/** Returns what applying the draft does to a node. */
export function markOf(draft: Draft, node: DraftNode): Mark {
  if (node.removed) return 'ends';
  if (node.was === null || nameOf(node.value) !== node.was) return 'new';
  return isEdited(draft, node) ? 'changed' : 'stays';
}

/** How a node fares. */
export interface Fares {
  readonly mood: 'good' | 'warn' | 'bad' | 'quiet';
  readonly text: string;
}

/** Returns how a node fares by its own state and by the stream that it publishes. */
export function faresOf(node: RunningNode | undefined, stream: Stream | undefined): Fares {
  if (node === undefined) return { mood: 'quiet', text: 'does not run yet' };
  if (node.error !== '') return { mood: 'bad', text: node.error };
  if (node.process !== '' && node.process !== 'running') return { mood: 'warn', text: `process: ${node.process}` };
  if (node.absent.length > 0) return { mood: 'warn', text: `${node.absent.join(', ')} absent` };
  if (node.offered === 0) return { mood: 'quiet', text: 'waits for its input' };
  if (stream?.health === 'losing') return { mood: 'warn', text: 'loses samples' };
  if (stream?.health === 'stale') return { mood: 'warn', text: 'silent' };
  if (stream?.health === 'ended') return { mood: 'quiet', text: 'ended' };
  return { mood: 'good', text: 'runs' };
}

/** A stream with its channels, known or planned. */
export interface KnownStream {
  readonly name: string;
  readonly rate: number;
  readonly channels: readonly { readonly name: string; readonly unit: string }[];
}

/** Reads the streams that a check plans. */
export function readPlanned(value: unknown): readonly KnownStream[] {
  return list(fields(value), 'streams').map(fields).map((from) => {
    const rate = fields(from['rate']);
    const part = (key: string): number => (typeof rate[key] === 'number' ? rate[key] : 1);
    return { name: text(from, 'name'), rate: part('numerator') / part('denominator'), channels: list(from, 'channels').map(fields).map((each) => ({ name: text(each, 'name'), unit: text(each, 'unit') })) };
  });
}

/** Returns rate, channels and units of a stream: `100 samples/s · 4 channels · V, A`. */
export function streamFacts(stream: KnownStream | undefined): string {
  if (stream === undefined) return '';
  const units = [...new Set(stream.channels.map(({ unit }) => unit))].filter((unit) => unit !== '');
  const shown = units.slice(0, 3).join(', ') + (units.length > 3 ? ', …' : '');
  const channels = stream.channels.length <= 1 ? '' : `${count(stream.channels.length)} channels`;
  return [stream.rate > 0 ? short(stream.rate, 'samples/s') : '', channels, shown].filter((part) => part !== '').join(' · ');
}

/** Returns what a node has lost, in short: `12 in holes`. */
export function shortLoss(node: RunningNode | undefined): string {
  if (node === undefined) return '';
  return node.source > 0 ? `${count(node.source)} in holes` : node.late > 0 ? `${count(node.late)} late` : '';
}

/** Returns what a node has lost: `12 of 4,000 samples in holes`. */
export function lossText(node: RunningNode | undefined): string {
  if (node === undefined || (node.source === 0 && node.late === 0)) return '';
  const parts = [node.source > 0 ? `${count(node.source)} of ${count(node.offered)} samples in holes` : '', node.late > 0 ? `${count(node.late)} late` : ''];
  return parts.filter((part) => part !== '').join(' · ');
}
