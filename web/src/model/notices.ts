/**
 * Texts for the states of the page: the current one, its text, and the remedy.
 */
import { PAGE_PROTOCOL, type ServerInfo } from '../wire/messages';
import { duration } from './quantity';
import type { Mood } from './sentence';

/** Known state of the server and the connection. */
export interface Standing {
  readonly connection: 'connecting' | 'open' | 'waiting';
  /** Milliseconds since the connection was lost, 0 while it holds. */
  readonly lostForMs: number;
  readonly retryInMs: number;
  readonly server: ServerInfo | null;
  readonly refused: { readonly message: string; readonly help: string } | null;
  readonly streams: number;
  readonly plots: number;
  /** The state of a shared view in place of its plots, if the page has one. */
  readonly view?: Notice | null;
}

/** A state's wording in the middle of the page. */
export interface Notice {
  readonly kind: 'empty' | 'no-view' | 'no-streams' | 'connecting' | 'no-permission' | 'older-server' | 'older-page' | 'lost';
  readonly title: string;
  readonly text: string;
  /** A command to copy, or nothing. */
  readonly command: string;
}

/** Returns the notice shown in place of plots, or null if there is something better to show. */
export function noticeOf(standing: Standing): Notice | null {
  const { refused, server } = standing;
  if (refused !== null) {
    return { kind: 'no-permission', title: 'No permission', text: [refused.message, refused.help].filter((part) => part !== '').map(asSentence).join(' '), command: '' };
  }
  if (server !== null && server.pageProtocol < PAGE_PROTOCOL) {
    return {
      kind: 'older-server', title: 'The server is older than this page', command: '',
      text: `It speaks page protocol ${server.pageProtocol}, the page needs ${PAGE_PROTOCOL}. Update the monitor (it runs ${server.version}), or open the page that it serves.`,
    };
  }
  if (server !== null && server.pageProtocol > PAGE_PROTOCOL) {
    return { kind: 'older-page', title: 'This page is older than the server', text: 'Reload it to get the matching one.', command: '' };
  }
  if (standing.plots > 0) return null;
  return withoutPlots(standing);
}

const asSentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.$/, '')}.`;

function withoutPlots(standing: Standing): Notice {
  if (standing.server === null && standing.connection !== 'open') {
    return standing.connection === 'connecting'
      ? { kind: 'connecting', title: 'Connecting', text: 'Asking the monitor for its streams.', command: '' }
      : { kind: 'lost', title: 'No monitor answers', text: 'The page reconnects by itself. Start the monitor with', command: 'tallycast monitor' };
  }
  const { view } = standing;
  if (view !== null && view !== undefined) return view;
  if (standing.streams === 0) {
    return { kind: 'no-streams', title: 'No streams yet', text: 'The monitor is listening. To try it, publish one with', command: 'tallycast pub demo/sine --wave sine' };
  }
  return { kind: 'empty', title: 'Nothing plotted', text: 'Choose a stream in the list (☰): Enter or + plots it, dragging it onto a plot overlays it. Press ? for the keys.', command: '' };
}

/** Returns the text of the top bar while the server is out of reach, or null. */
export function connectionSentence(standing: Standing): { readonly mood: Mood; readonly text: string } | null {
  if (standing.refused !== null) return { mood: 'bad', text: 'This address may not read the bus' };
  if (standing.connection === 'open') return null;
  if (standing.connection === 'connecting') return { mood: 'quiet', text: 'Connecting …' };
  const lost = standing.lostForMs < 1000 ? '' : ` for ${duration(Math.floor(standing.lostForMs / 1000) * 1e9)}`;
  const soon = standing.retryInMs < 1000 ? 'trying again now' : `trying again in ${duration(Math.ceil(standing.retryInMs / 1000) * 1e9)}`;
  return { mood: 'bad', text: `No connection${lost} · the data shown are old · ${soon}` };
}
