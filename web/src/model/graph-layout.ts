/**
 * Places of streams and nodes in the drawing of a graph: inputs at the left, and each node to the right of all that it reads.
 */

/** What is to be placed. */
export interface Placeable {
  /** Names it in the drawing. */
  readonly key: string;
  /** The stream that it publishes. */
  readonly stream: string;
  readonly inputs: readonly string[];
}

/** A place: column from the left, row from above. */
export interface Place {
  readonly key: string;
  /** Set for a stream that no node publishes. */
  readonly source: string | null;
  readonly column: number;
  readonly row: number;
}

/** An edge between two places. */
export interface Edge {
  readonly from: string;
  readonly to: string;
}

/** The drawing. */
export interface Layout {
  /** Column by column, in each from above. */
  readonly places: readonly Place[];
  readonly edges: readonly Edge[];
  readonly columns: number;
  readonly rows: number;
}

const SOURCE = 'stream ';

/** Key of a stream that no node publishes. */
export const sourceKey = (stream: string): string => SOURCE + stream;

/** Returns the stream of such a key; null of another one. */
export const sourceOf = (key: string): string | null => (key.startsWith(SOURCE) ? key.slice(SOURCE.length) : null);

/** Places nodes and the streams that they read. A circle is drawn, too: one of its edges leads back. */
export function layoutOf(nodes: readonly Placeable[]): Layout {
  const publishers = new Map<string, string>();
  for (const { key, stream } of nodes) if (!publishers.has(stream)) publishers.set(stream, key);
  const byKey = new Map(nodes.map((node) => [node.key, node]));
  const keyOf = (stream: string): string => publishers.get(stream) ?? sourceKey(stream);
  const columns = new Map<string, number>();
  const column = (key: string, path: ReadonlySet<string>): number => {
    const known = columns.get(key);
    if (known !== undefined) return known;
    const node = byKey.get(key);
    if (node === undefined || path.has(key)) return 0;
    const further = new Set([...path, key]);
    const found = 1 + Math.max(0, ...node.inputs.map((input) => column(keyOf(input), further)));
    columns.set(key, found);
    return found;
  };
  nodes.forEach(({ key }) => column(key, new Set()));
  const sources = [...new Set(nodes.flatMap(({ inputs }) => inputs))].filter((stream) => !publishers.has(stream)).sort();
  const edges = nodes.flatMap(({ key, inputs }) => inputs.map((input) => ({ from: keyOf(input), to: key })));
  const rows = new Map<string, number>();
  const places: Place[] = sources.map((source, row) => ({ key: sourceKey(source), source, column: 0, row }));
  places.forEach(({ key, row }) => rows.set(key, row));
  const last = Math.max(0, ...columns.values());
  for (let at = 1; at <= last; at += 1) {
    const here = nodes.filter(({ key }) => columns.get(key) === at).map((node, place) => ({ node, place, wish: mean(node.inputs.map((input) => rows.get(keyOf(input)) ?? 0)) }));
    here.sort((a, b) => a.wish - b.wish || a.place - b.place);
    let next = 0;
    for (const { node, wish } of here) {
      // Beside what it reads where there is room.
      const row = Math.max(next, Math.floor(wish));
      rows.set(node.key, row);
      places.push({ key: node.key, source: null, column: at, row });
      next = row + 1;
    }
  }
  return { places, edges, columns: last + 1, rows: Math.max(0, ...places.map(({ row }) => row + 1)) };
}

const mean = (values: readonly number[]): number => (values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length);

/** Returns the place that an arrow key leads to: along an edge, or up and down in a column; null if there is none. */
export function neighbour(layout: Layout, key: string, arrow: string): string | null {
  const from = layout.places.find((place) => place.key === key);
  if (from === undefined) return null;
  if (arrow === 'ArrowUp' || arrow === 'ArrowDown') {
    const column = layout.places.filter((place) => place.column === from.column);
    return column[column.indexOf(from) + (arrow === 'ArrowUp' ? -1 : 1)]?.key ?? null;
  }
  const ends = layout.edges.flatMap((edge) => (arrow === 'ArrowRight' && edge.from === key ? [edge.to] : arrow === 'ArrowLeft' && edge.to === key ? [edge.from] : []));
  const near = layout.places.filter((place) => ends.includes(place.key));
  near.sort((a, b) => Math.abs(a.row - from.row) - Math.abs(b.row - from.row));
  return near[0]?.key ?? null;
}
