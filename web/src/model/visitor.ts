/**
 * The visitor of this page as the monitor knows it: its name, what it may do, and what the page offers it.
 */
import { fields, flag, isFields, text } from '../wire/json';

/** Kind of use that rules allow or deny. */
export type May = 'read' | 'steer' | 'derive';

/** Right of a visitor: with any stream, with all of them, and what decides the latter. */
export interface Right {
  readonly some: boolean;
  readonly all: boolean;
  readonly why: string;
}

/** The visitor. */
export interface Visitor {
  /** Such as `user:ada`. */
  readonly principal: string;
  readonly signedIn: boolean;
  /** True if the monitor has users. */
  readonly canSignIn: boolean;
  /** True if page and API are open to other hosts without encryption. */
  readonly insecure: boolean;
  readonly may: Readonly<Record<May, Right>>;
}

const FREE: Right = { some: true, all: true, why: '' };

/** A visitor of a server without users, which may do everything. */
export const ANYONE: Visitor = {
  principal: 'anyone', signedIn: false, canSignIn: false, insecure: false, may: { read: FREE, steer: FREE, derive: FREE },
};

/** Reads the answer of `/api/session`. */
export function readVisitor(value: unknown): Visitor {
  const from = fields(value);
  const may = fields(from['may']);
  const right = (name: May): Right => {
    const given = may[name];
    return isFields(given) ? { some: flag(given, 'some'), all: flag(given, 'all'), why: text(given, 'why') } : FREE;
  };
  return {
    principal: text(from, 'principal', 'anyone'),
    signedIn: flag(from, 'signed_in'),
    canSignIn: flag(from, 'can_sign_in'),
    insecure: flag(from, 'insecure'),
    may: { read: right('read'), steer: right('steer'), derive: right('derive') },
  };
}

/** Returns the visitor's name for the top bar: a user's without its kind. */
export function nameOf(visitor: Visitor): string {
  return visitor.signedIn ? visitor.principal.replace(/^user:/, '') : '';
}

/** What stands in the place of the plots: the form to sign in, the reason why nothing can be read, or nothing. */
export type Door = { readonly kind: 'open' } | { readonly kind: 'sign-in' } | { readonly kind: 'closed'; readonly why: string };

/** Returns the door that a visitor finds. */
export function doorOf(visitor: Visitor): Door {
  if (visitor.may.read.some) return { kind: 'open' };
  if (!visitor.signedIn && visitor.canSignIn) return { kind: 'sign-in' };
  return { kind: 'closed', why: visitor.may.read.why };
}

/** Returns why a control is disabled, or an empty text. */
export function barred(visitor: Visitor, may: May, streams: 'some' | 'all'): string {
  const right = visitor.may[may];
  if (right[streams]) return '';
  const first = visitor.signedIn ? `${visitor.principal} may not ${may}` : visitor.canSignIn ? 'Sign in to do this' : 'Not allowed here';
  return right.why === '' ? first : `${first} (${right.why})`;
}

/** Returns what the form to sign in says about a page that the server closed: the end of its rights, or nothing. */
export function closedText(reason: string): string {
  const [, why] = /^ask again: (.*)$/.exec(reason) ?? [];
  return why === undefined ? '' : `This page was closed: ${why}`;
}
