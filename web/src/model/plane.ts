/**
 * Planes: the matrices of a sample with more than two extents, and the indices that name one of them.
 *
 * A plane has one index for each extent before the last two, from 0, as NumPy has them: `[1, 0]` of the shape 2 × 3 × 64 × 96. No
 * index at all is the first plane. Its number counts in the order of the sample, the last index fastest: here 3.
 */
import type { Channel, TraceRequest } from '../wire/messages';

/** Indices of a plane; those of the first plane are left out. */
export type Plane = readonly number[];

/** The first plane. */
export const FIRST_PLANE: Plane = [];
/** The most indices of a plane: `docs/protocol/page.md`. */
export const MAX_PLANE_INDICES = 6;
const MAX_INDEX = 2 ** 32 - 1;

const product = (extents: readonly number[]): number => extents.reduce((so, extent) => so * extent, 1);

/** Returns the extents that planes are counted in: those of a channel's shape before the last two. */
export const planeExtents = (channel: Channel | undefined): readonly number[] => channel?.shape.slice(0, -2) ?? [];

/** Returns the extents by which planes are chosen: those of the catalogue if they make as many planes as a frame says, else their number. */
export function choiceExtents(known: readonly number[], planes: number | null): readonly number[] {
  return planes === null || product(known) === planes ? known : [planes];
}

/** Returns the indices as they are kept: none of the first plane. */
export const keptPlane = (indices: Plane): Plane => (indices.every((index) => index === 0) ? FIRST_PLANE : indices);

/** Reads indices; null if they cannot be some. */
export function readPlane(indices: readonly unknown[]): Plane | null {
  const known = indices.filter((index) => typeof index === 'number' && Number.isInteger(index) && index >= 0 && index <= MAX_INDEX) as number[];
  return known.length === indices.length && known.length <= MAX_PLANE_INDICES ? keptPlane(known) : null;
}

/** Returns whether there is such a plane. */
export const isThere = (plane: Plane, extents: readonly number[]): boolean => plane.length === 0 || (plane.length === extents.length && plane.every((index, place) => index < (extents[place] ?? 0)));

/** Returns whether two planes are the same. */
export const samePlane = (a: Plane, b: Plane): boolean => a === b || (a.length === b.length && a.every((index, place) => index === b[place]));

/** Returns the indices of a plane by its number, one for each extent. */
export function indicesOf(number: number, extents: readonly number[]): readonly number[] {
  return extents.reduceRight<readonly number[]>((so, extent, place) => {
    const inner = product(extents.slice(place + 1));
    return [Math.floor(number / inner) % extent, ...so];
  }, []);
}

/** Returns the number of a plane; each index is taken as the nearest one that there is. */
export function numberOf(indices: readonly number[], extents: readonly number[]): number {
  return extents.reduce((number, extent, place) => number * extent + Math.max(0, Math.min(extent - 1, indices[place] ?? 0)), 0);
}

/** Returns the number of the plane `by` further, at the ends the last one that there is. */
export function stepped(number: number, by: number, extents: readonly number[]): number {
  return Math.max(0, Math.min(product(extents) - 1, number + by));
}

/** Names a plane: `[1, 0]`. */
export const planeText = (indices: readonly number[]): string => `[${indices.join(', ')}]`;

/** Names how many planes there are: `4`, or `2 × 3`. */
export const extentsText = (extents: readonly number[]): string => extents.join(' × ');

/** Says that the plane asked for is not there, and which one is shown. */
export function missingPlaneText(asked: Plane, shown: number, extents: readonly number[]): string {
  const there = product(extents) === 1
    ? 'a sample of this channel is one plane, which is shown'
    : `this channel has ${extentsText(extents)} planes. The nearest, ${planeText(indicesOf(shown, extents))}, is shown`;
  return `There is no plane ${planeText(asked)}: ${there}.`;
}

/** Returns the trace whose values are exported of a plane: its first element, as the channel alone is that of the first plane. */
export function firstElementOf(trace: TraceRequest, channel: Channel | undefined, plane: Plane): TraceRequest {
  if (channel === undefined || plane.length === 0) return trace;
  const first = numberOf(plane, planeExtents(channel)) * product(channel.shape.slice(-2));
  return first === 0 ? trace : { ...trace, channel: `${trace.channel}[${first}]` };
}
