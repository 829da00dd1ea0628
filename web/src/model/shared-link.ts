/**
 * Addresses of shared views: `?view=NAME` follows one, `?watch=ID` follows it without the right to change it, `?fork=NAME` opens a copy.
 */

/** What a page follows: a view by its name, or by the text that lets one only watch. */
export type Target = { readonly kind: 'view'; readonly name: string } | { readonly kind: 'watch'; readonly id: string };

/** What an address says of shared views. */
export type Link = Target | { readonly kind: 'fork'; readonly name: string } | { readonly kind: 'none' };

const NAME = /^(?!\.)[A-Za-z0-9._-]{1,64}$/;
const ID = /^[0-9a-f]{32}$/;
const MAX_NAME = 64;

/** Returns whether a view can have this name. */
export const isName = (name: string): boolean => NAME.test(name);

/** Reads the query of an address; a name that no view can have is none. */
export function readLink(query: string): Link {
  const values = new URLSearchParams(query);
  const [view, watch, fork] = ['view', 'watch', 'fork'].map((key) => values.get(key) ?? '');
  if (view !== undefined && isName(view)) return { kind: 'view', name: view };
  if (watch !== undefined && ID.test(watch)) return { kind: 'watch', id: watch };
  return fork !== undefined && isName(fork) ? { kind: 'fork', name: fork } : { kind: 'none' };
}

/** Writes the query of an address, without the question mark. */
export function writeLink(link: Exclude<Link, { readonly kind: 'none' }>): string {
  return link.kind === 'watch' ? `watch=${link.id}` : `${link.kind}=${link.name}`;
}

/** Returns the name of a view that is given this title, or an empty text if nothing of it can be in a name. */
export function nameOfTitle(title: string): string {
  const plain = title.normalize('NFKD').replace(/[\u0300-\u036f]/g, '').replace(/[^A-Za-z0-9._-]+/g, '-');
  return plain.replace(/^[-.]+/, '').slice(0, MAX_NAME).replace(/-+$/, '');
}

/** Column counts of views that several pages follow: few, so that one answer serves many pages. */
const COLUMN_STEPS: readonly number[] = [320, 480, 640, 960, 1280, 1920, 2560];

/** Returns the column count for a plot of this width: the next step up, or the last one. */
export function columnStep(widthPx: number): number {
  return COLUMN_STEPS.find((step) => step >= widthPx) ?? COLUMN_STEPS.at(-1) ?? widthPx;
}
