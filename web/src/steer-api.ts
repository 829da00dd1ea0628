/**
 * Requests that steer apps. The text in `Tallycast-Page` makes leases those of this tab; a session has its own.
 */
import { ask } from './api';
import { readMarks, STEER_PREFIX, type Mark } from './model/steering-marks';
import { readApp, readOutcome, type Outcome, type SteeredApp } from './model/steering';
import { list, text, fields } from './wire/json';

/** An uncertain command is asked for during a minute. */
const COMMAND_PATIENCE_MS = 90_000;
const PAGE = pageText();
/** Columns in which changes are looked for: finer than the pixels of a plot. */
const COLUMNS = 4_096;

/** A request beside commands. */
export type Action =
  | { readonly action: 'lease' | 'release'; readonly group: string }
  | { readonly action: 'take_over'; readonly group: string; readonly reason: string }
  | { readonly action: 'stop' | 'resume'; readonly reason: string };

/** A command. */
export interface Command {
  readonly parameter: string;
  readonly value: unknown;
  readonly if_revision: number;
}

const path = (app: string): string => `/api/steer/${app.split('/').map(encodeURIComponent).join('/')}`;
const headers = { 'content-type': 'application/json', 'tallycast-page': PAGE };

/** Returns the names of the apps that can be steered. */
export async function fetchApps(): Promise<readonly string[]> {
  return list({ answer: await ask('/api/steer') }, 'answer').map((each) => text(fields(each), 'app'));
}

/** Returns an app as it stands. */
export async function fetchApp(app: string): Promise<SteeredApp> {
  return readApp(await ask(path(app), { headers }));
}

/** Sends a command, once, and waits for what became of it. */
export async function command(app: string, body: Command): Promise<Outcome> {
  return readOutcome(await ask(path(app), { method: 'PUT', headers, body: JSON.stringify(body) }, COMMAND_PATIENCE_MS));
}

/** Takes or releases a lease, or turns a kill switch. */
export async function act(app: string, body: Action): Promise<void> {
  await ask(path(app), { method: 'POST', headers, body: JSON.stringify(body) });
}

/** Returns the changes of an app between two times. */
export async function fetchChanges(app: string, from: bigint, to: bigint): Promise<readonly Mark[]> {
  const query = new URLSearchParams({ stream: `${STEER_PREFIX}${app}`, channel: 'index', from: `${from}`, to: `${to}`, points: `${COLUMNS}` });
  return readMarks(app, await ask(`/api/range?${query}`));
}

function pageText(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
