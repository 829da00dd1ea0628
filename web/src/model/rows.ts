/**
 * The rows of a long list that are in the document: those in view, and some beyond them.
 */

/** Rows beyond each edge of what is seen: a turn of the wheel meets no empty place. */
const BEYOND = 6;

/** Returns the first row that is in the document, and the one after the last. */
export function rowsInView(scrollPx: number, viewPx: number, rowPx: number, count: number): { readonly first: number; readonly end: number } {
  const height = Math.max(1, rowPx);
  const first = Math.max(0, Math.min(count, Math.floor(scrollPx / height) - BEYOND));
  return { first, end: Math.min(count, Math.max(first, Math.ceil((scrollPx + viewPx) / height) + BEYOND)) };
}

/** Returns how far to scroll so that a row is seen in full, moving as little as possible. */
export function scrollTo(row: number, scrollPx: number, viewPx: number, rowPx: number): number {
  const top = row * rowPx;
  if (top < scrollPx) return top;
  return top + rowPx > scrollPx + viewPx ? top + rowPx - viewPx : scrollPx;
}
