/**
 * What the page says about shared views: the chip in the top bar, the entries of the list, the notice in place of plots.
 */
import type { SharedEntry } from '../wire/shared-view';
import type { Notice } from './notices';
import { hindrance, nameOf, presenterOf, presents, titleOf, unsent, type Following, type Session } from './shared-view';
import type { Target } from './shared-link';
import { clock, day, type Zone } from './time';

/** What the button beside the chip does. */
export type ChipAction = 'present' | 'stop' | 'rejoin' | 'dismiss';

/** The shared view in the top bar. */
export interface Chip {
  readonly mood: 'quiet' | 'live' | 'warn';
  readonly title: string;
  readonly facts: string;
  readonly action: ChipAction | null;
}

/** Words on the buttons of the chip. */
export const ACTION_WORDS: Readonly<Record<ChipAction, string>> = { present: 'Present', stop: 'Stop presenting', rejoin: 'Rejoin', dismiss: 'Dismiss' };

const called = (target: Target): string => (target.kind === 'view' ? target.name : 'a shared view');

/** Returns what the top bar says, or null on a page that follows nothing. */
export function chipOf(session: Session): Chip | null {
  switch (session.kind) {
    case 'alone': return null;
    case 'joining': return { mood: 'quiet', title: `Opening ${called(session.target)} …`, facts: '', action: null };
    case 'left': return { mood: 'warn', title: `You left ${session.title}`, facts: session.why, action: 'rejoin' };
    case 'gone': return { mood: 'warn', title: `${session.title} was deleted`, facts: 'the page keeps what it shows', action: 'dismiss' };
    case 'refused': return { mood: 'warn', title: `No access to ${called(session.target)}`, facts: session.text, action: 'rejoin' };
    case 'following': return followed(session);
  }
}

function followed(session: Following): Chip {
  const count = session.watchers.length;
  const watching = count < 2 ? '' : ` · ${count} watch`;
  const title = titleOf(session);
  if (!session.online) return { mood: 'warn', title, facts: offlineFacts(session), action: null };
  const action = presents(session) ? 'stop' : session.mayWrite && presenterOf(session) === null ? 'present' : null;
  return { mood: 'live', title, facts: session.settled ? `${standing(session)}${watching}` : '', action };
}

function offlineFacts(session: Following): string {
  return Object.keys(unsent(session)).length > 0 ? 'no connection · your changes wait' : 'no connection';
}

/** Returns who decides what a followed view shows. */
export function standing(session: Following): string {
  const presenter = presenterOf(session);
  if (presenter !== null) return presenter.id === session.you ? 'you present' : `${nameOf(presenter)} presents`;
  return session.mayWrite ? 'all may edit' : 'read-only';
}

/** Returns what a change of this page would do. */
export function consequence(session: Following): string {
  const why = hindrance(session);
  if (why === '') return presents(session) ? 'All who follow see what you change.' : 'What you change here, all who follow see, and the view keeps it.';
  return `With your first change this page leaves the view (${why}); you can rejoin at any time.`;
}

/** Returns the facts of an entry of the list. */
export function entryFacts(entry: SharedEntry, nowNs: bigint, zone: Zone): string {
  const { presenter, watchers, changedBy } = entry;
  const at = BigInt(Math.round(entry.changedNs));
  const today = day(at, zone) === day(nowNs, zone);
  const when = entry.changedNs > 0 ? [`changed ${today ? clock(at, zone) : day(at, zone)}${changedBy === '' ? '' : ` by ${changedBy}`}`] : [];
  const now = presenter === null ? [] : [`${presenter === '' ? 'a visitor' : presenter} presents`];
  const count = watchers === 0 ? [] : [watchers === 1 ? '1 watches' : `${watchers} watch`];
  return [...now, ...count, ...when].join(' · ');
}

/** Returns what is asked before a view is deleted. */
export function deletionQuestion({ name, title, watchers }: SharedEntry): string {
  const lost = watchers === 0 ? '' : watchers === 1 ? ' One page follows it.' : ` ${watchers} pages follow it.`;
  return `Delete ${title === '' ? name : title}?${lost}`;
}

/** Returns the notice in place of plots, or null. */
export function viewNotice(session: Session): Notice | null {
  switch (session.kind) {
    case 'joining':
      return { kind: 'connecting', title: 'Opening a shared view', text: 'Asking the monitor for it.', command: '' };
    case 'refused':
      return { kind: 'no-view', title: `No access to ${called(session.target)}`, text: `${session.text.replace(/\.$/, '')}. Press v for the views of this monitor.`, command: '' };
    case 'following':
      return { kind: 'empty', title: 'This view is empty', text: hindrance(session) === '' ? 'Plot a stream from the list (☰): it appears for all who follow.' : 'Plots appear here as they are added.', command: '' };
    default:
      return null;
  }
}
