/**
 * Requests about the processing graph.
 */
import { ask } from './api';
import { readGraph, type Graph } from './model/graph-draft';
import { readKinds, type Kind } from './model/graph-kinds';
import type { Fields } from './wire/json';

/** Returns the graph that runs, as far as the visitor may see it. */
export const fetchGraph = async (): Promise<Graph> => readGraph(await ask('/api/graph'));

/** Returns the kinds of nodes with their settings. */
export const fetchKinds = async (): Promise<readonly Kind[]> => readKinds(await ask('/api/graph/kinds'));

const send = (method: string, path: string, body: Fields, revision?: number): Promise<unknown> =>
  ask(path, { method, headers: { 'content-type': 'application/json', ...(revision === undefined ? {} : { 'if-match': `"${revision}"` }) }, body: JSON.stringify(body) });

/** Asks what a graph would change, and for all of its problems. */
export const checkGraph = (body: Fields): Promise<unknown> => send('POST', '/api/graph/check', body);

/** Replaces the graph if it has this revision. */
export const applyGraph = (body: Fields, revision: number): Promise<unknown> => send('PUT', '/api/graph', body, revision);

/** Returns to the graph before, if it has this revision. */
export const undoGraph = (revision: number): Promise<unknown> => send('POST', '/api/graph/undo', {}, revision);
