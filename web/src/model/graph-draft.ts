/**
 * The graph that runs, and a visitor's draft of another one: edited, compared, and put on top of what others change meanwhile.
 *
 * Nodes are the server's JSON, so that one that nobody touches goes back as it came, and continues.
 */
import { fields, list, number, parseJson, text, type Fields } from '../wire/json';

/** A node that runs, and how it fares. */
export interface RunningNode {
  /** Name, kind and settings. */
  readonly value: Fields;
  readonly offered: number;
  /** Samples of those in holes of its inputs. */
  readonly source: number;
  readonly late: number;
  readonly absent: readonly string[];
  readonly error: string;
  /** State of its process, or empty. */
  readonly process: string;
}

/** The graph that runs. */
export interface Graph {
  readonly revision: number;
  readonly undo: number;
  readonly from: string;
  readonly problem: string;
  readonly nodes: readonly RunningNode[];
}

/** A node of a draft. */
export interface DraftNode {
  /** Names it while it is edited. */
  readonly id: number;
  /** Its name in the graph that runs; null for a new one. */
  readonly was: string | null;
  readonly value: Fields;
  readonly removed: boolean;
  /** What another visitor made of it since it was changed here; null if it was ended, undefined if nothing. */
  readonly theirs?: Fields | null;
}

/** A draft. */
export interface Draft {
  readonly base: Graph;
  readonly nodes: readonly DraftNode[];
  readonly nextId: number;
  /** What another visitor changed since the draft was begun, or empty. */
  readonly news: string;
}

/** Names of nodes by what a change does to them. */
export interface Difference {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
  readonly kept: readonly string[];
}

const STATUS = new Set(['offered_samples', 'source_samples', 'late_samples', 'absent', 'error', 'process']);

/** Reads the answer of `GET /api/graph`. */
export function readGraph(value: unknown): Graph {
  const from = fields(value);
  const origin = fields(from['origin']);
  return {
    revision: number(from, 'revision'), undo: number(from, 'undo'), from: text(origin, 'from'), problem: text(origin, 'problem'),
    nodes: list(from, 'nodes').map(fields).map((node) => ({
      value: Object.fromEntries(Object.entries(node).filter(([name]) => !STATUS.has(name))),
      offered: number(node, 'offered_samples'), source: number(node, 'source_samples'), late: number(node, 'late_samples'),
      absent: list(node, 'absent').filter((each) => typeof each === 'string'), error: text(node, 'error'), process: text(fields(node['process']), 'state'),
    })),
  };
}

/** Reads what a check says that a change does. */
export function readDifference(value: unknown): Difference {
  const from = fields(value);
  const names = (key: string): readonly string[] => list(from, key).filter((each) => typeof each === 'string');
  return { added: names('added'), changed: names('changed'), removed: names('removed'), kept: names('kept') };
}

/** Returns a node's name. */
export const nameOf = (value: Fields): string => text(value, 'name');

/** Returns the streams that a node reads, each once. */
export function inputsOf(value: Fields): readonly string[] {
  const given = [value['input'], value['inputs']].flatMap((each) => (typeof each === 'string' ? [each] : Array.isArray(each) ? each : Object.values(fields(each))));
  const streams = given.filter((each) => typeof each === 'string').map((each) => each.split(':', 1)[0] ?? '');
  return [...new Set(streams)].filter((stream) => stream !== '');
}

/** Compares two values, whatever the order of their keys. */
export function same(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

const canonical = (value: unknown): string => JSON.stringify(value, (_, each: unknown) => (Array.isArray(each) || typeof each !== 'object' || each === null ? each
  : Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1)))));

/** Begins a draft that changes nothing. */
export function begin(base: Graph): Draft {
  return { base, nodes: base.nodes.map(({ value }, id) => ({ id, was: nameOf(value), value, removed: false })), nextId: base.nodes.length, news: '' };
}

/** Returns the node of a name in the graph that runs. */
export const runningNode = (graph: Graph, name: string | null): RunningNode | undefined => graph.nodes.find(({ value }) => nameOf(value) === name);

const running = (graph: Graph, name: string | null): Fields | undefined => runningNode(graph, name)?.value;

/** Returns whether a node differs from what runs. */
export const isEdited = (draft: Draft, node: DraftNode): boolean => node.removed || !same(node.value, running(draft.base, node.was));

/** Returns whether a draft differs from what runs. */
export const isChanged = (draft: Draft): boolean => draft.nodes.some((node) => isEdited(draft, node));

/** Adds a node; it is the last. */
export function add(draft: Draft, value: Fields): Draft {
  return { ...draft, nodes: [...draft.nodes, { id: draft.nextId, was: null, value, removed: false }], nextId: draft.nextId + 1 };
}

/** Gives a node another value. */
export function edit(draft: Draft, id: number, value: Fields): Draft {
  return { ...draft, nodes: draft.nodes.map((node) => (node.id === id ? { ...node, value } : node)) };
}

/** Takes a node out, or back in; a new one is gone. */
export function remove(draft: Draft, id: number, removed: boolean): Draft {
  const nodes = draft.nodes.flatMap((node) => (node.id !== id ? [node] : node.was === null ? [] : [{ ...node, removed }]));
  return { ...draft, nodes };
}

/** Returns what the server is asked to run. */
export const bodyOf = (draft: Draft): Fields => ({ node: draft.nodes.filter(({ removed }) => !removed).map(({ value }) => value) });

/** Returns what applying the draft does, as far as the page can tell. */
export function differenceOf(draft: Draft): Difference {
  return between(draft.base.nodes.map(({ value }) => value), draft.nodes.filter(({ removed }) => !removed).map(({ value }) => value));
}

function between(before: readonly Fields[], after: readonly Fields[]): Difference {
  const of = (nodes: readonly Fields[]): ReadonlyMap<string, Fields> => new Map(nodes.map((value) => [nameOf(value), value]));
  const [old, now] = [of(before), of(after)];
  const names = [...now.keys()].sort();
  return {
    added: names.filter((name) => !old.has(name)),
    changed: names.filter((name) => old.has(name) && !same(old.get(name), now.get(name))),
    removed: [...old.keys()].filter((name) => !now.has(name)).sort(),
    kept: names.filter((name) => old.has(name) && same(old.get(name), now.get(name))),
  };
}

/** Puts a draft on top of a newer graph: what the visitor did not touch is as it is there, and what both changed is marked. */
export function rebase(draft: Draft, theirs: Graph): Draft {
  const change = between(draft.base.nodes.map(({ value }) => value), theirs.nodes.map(({ value }) => value));
  const left = new Map(theirs.nodes.map(({ value }) => [nameOf(value), value]));
  const nodes: DraftNode[] = [];
  for (const node of draft.nodes) {
    // A new node may have the name of one that another visitor began.
    const name = node.was ?? nameOf(node.value);
    const there = left.get(name);
    left.delete(name);
    const based = rebased(draft, node, there);
    if (based !== null) nodes.push(based);
  }
  let { nextId } = draft;
  for (const value of left.values()) nodes.push({ id: nextId++, was: nameOf(value), value, removed: false });
  const news = isChanged(draft) ? newsOf(change, theirs.revision) : '';
  return { base: theirs, nodes, nextId, news: news === '' ? draft.news : news };
}

function rebased(draft: Draft, node: DraftNode, there: Fields | undefined): DraftNode | null {
  const { theirs: _, ...mine } = node;
  const before = running(draft.base, node.was);
  if (there === undefined) {
    if (node.was === null) return node;
    // Ended there: what was changed here would begin again.
    return node.removed || same(node.value, before) ? null : { ...mine, was: null, theirs: null };
  }
  const was = nameOf(there);
  if (before !== undefined && !isEdited(draft, node)) return { ...mine, was, value: there };
  if (!node.removed && same(node.value, there)) return { ...mine, was };
  return same(there, before) ? { ...mine, was, ...(node.theirs === undefined ? {} : { theirs: node.theirs }) } : { ...mine, was, theirs: there };
}

/** Ends a disagreement about a node: with what is in the draft, or with what the other visitor made of it. */
export function settle(draft: Draft, id: number, whose: 'mine' | 'theirs'): Draft {
  const nodes = draft.nodes.flatMap((node) => {
    if (node.id !== id) return [node];
    const { theirs, ...rest } = node;
    if (whose === 'mine' || theirs === undefined) return [rest];
    return theirs === null ? [] : [{ ...rest, value: theirs, removed: false }];
  });
  return { ...draft, nodes };
}

function newsOf(change: Difference, revision: number): string {
  const parts = changeParts(change);
  return parts.length === 0 ? '' : `Another visitor changed the graph, to revision ${revision}: ${parts.join('; ')}.`;
}

/** Returns what begins, begins anew and ends, in words. */
export function changeParts({ added, changed, removed }: Difference): readonly string[] {
  const parts: readonly (readonly [string, string, readonly string[]])[] = [['begins', 'begin', added], ['begins anew', 'begin anew', changed], ['ends', 'end', removed]];
  return parts.filter(([, , names]) => names.length > 0).map(([one, several, names]) => `${names.join(', ')} ${names.length === 1 ? one : several}`);
}

/** Writes a draft so that the page has it again after it was reloaded. */
export const keep = (draft: Draft, principal: string): string => JSON.stringify({ principal, draft });

/** Reads a kept draft of this visitor, on top of the graph that runs now; null if there is none. */
export function restore(kept: string | null, principal: string, now: Graph): Draft | null {
  if (kept === null) return null;
  try {
    const from = fields(parseJson(kept));
    const draft = from['draft'] as Draft | undefined;
    if (text(from, 'principal') !== principal || !Array.isArray(draft?.nodes) || !Array.isArray(draft.base.nodes)) return null;
    const based = rebase(draft, now);
    return isChanged(based) ? based : null;
  } catch {
    return null;
  }
}
