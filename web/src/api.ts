/**
 * The HTTP side of the protocol: requests on demand, never polled faster than a user reads.
 */
import type { Alarm } from './model/alarms';
import type { Made } from './model/derived-chip';
import { ANYONE, readVisitor, type Visitor } from './model/visitor';
import { fields, flag, list, number, parseJson, text, type Fields } from './wire/json';
import { readAccount, readGapDetail, readServer, readStreams, type Account, type GapDetail, type ServerInfo, type Stream } from './wire/messages';

/** Error for a refusal by the server, with its text and the remedy. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly help: string,
    /** The whole answer. */
    readonly said: Fields = {},
  ) {
    super(message);
    this.name = 'Refused';
  }

  /** The text with the remedy, if there is one. */
  get text(): string {
    return [this.message, this.help].filter((part) => part !== '').join(': ');
  }
}

/** Time-out of a request: the page reports it instead of hanging. */
const PATIENCE_MS = 10_000;

/** Asks the server; throws {@link Refused} if it refuses. */
export async function ask(path: string, init: RequestInit = {}, patienceMs = PATIENCE_MS): Promise<unknown> {
  const response = await fetch(path, { ...init, signal: AbortSignal.timeout(patienceMs) });
  const body = await response.text();
  const value = readBody(body);
  if (response.ok) return value;
  const said = fields(value);
  throw new Refused(response.status, text(said, 'error', response.statusText), text(said, 'help'), said);
}

/** Time-out of a file: the archive may have to be read. */
const FILE_PATIENCE_MS = 300_000;

/** Asks the server for a file; throws {@link Refused} if it refuses. */
export async function fetchFile(path: string): Promise<Blob> {
  const response = await fetch(path, { signal: AbortSignal.timeout(FILE_PATIENCE_MS) });
  if (response.ok) return response.blob();
  const said = fields(readBody(await response.text()));
  throw new Refused(response.status, text(said, 'error', response.statusText), text(said, 'help'));
}

/** Errors may come as plain text from something between page and server. */
function readBody(body: string): unknown {
  try {
    return parseJson(body);
  } catch {
    return null;
  }
}

const post = (path: string, body: unknown): Promise<unknown> =>
  ask(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

/** Returns the catalogue. */
export async function fetchStreams(): Promise<{ server: ServerInfo; streams: readonly Stream[] }> {
  const from = fields(await ask('/api/streams'));
  return { server: readServer(from['server']), streams: readStreams(from) };
}

/** Returns one stream's account. */
export async function fetchAccount(stream: string): Promise<Account> {
  return readAccount(await ask(`/api/account?${new URLSearchParams({ stream })}`));
}

/** Returns the gaps of a stream between two times, with their evidence. */
export async function fetchGaps(stream: string, from: bigint, to: bigint, limit: number): Promise<readonly GapDetail[]> {
  const query = new URLSearchParams({ stream, from: `${from}`, to: `${to}`, limit: `${limit}` });
  const answer = await ask(`/api/gaps?${query}`);
  const items = Array.isArray(answer) ? answer : list(fields(answer), 'gaps');
  return items.map(readGapDetail);
}

/** Returns the visitor of this page; a server without visitors lets anyone do anything. */
export async function fetchVisitor(): Promise<Visitor> {
  try {
    return readVisitor(await ask('/api/session'));
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return ANYONE;
    throw error;
  }
}

/** Signs a user in: the answer sets the cookie of the session, which no script reads. */
export async function signIn(user: string, password: string): Promise<void> {
  await post('/api/sign-in', { user, password });
}

/** Ends the session. */
export async function signOut(): Promise<void> {
  await post('/api/sign-out', {});
}

/** State of loss injection: whether it is possible here, and its probability. */
export interface Injection {
  readonly available: boolean;
  readonly probability: number;
}

/** Returns whether the "lose 1 %" switch works here; a server without it answers 404. */
export async function fetchInjection(): Promise<Injection> {
  try {
    return readInjection(await ask('/api/inject'));
  } catch (error) {
    if (error instanceof Refused) return { available: false, probability: 0 };
    throw error;
  }
}

/** Injects loss with this probability, or none. */
export async function setInjection(probability: number): Promise<Injection> {
  const answer = await post('/api/inject', { probability });
  return { ...readInjection(answer), available: true, probability };
}

function readInjection(value: unknown): Injection {
  const from = fields(value);
  return { available: flag(from, 'available'), probability: number(from, 'probability') };
}

/** Returns the patterns the monitor has joined. */
export async function fetchPatterns(): Promise<readonly string[]> {
  const answer = await ask('/api/patterns');
  const items = Array.isArray(answer) ? answer : list(fields(answer), 'patterns');
  return items.map((item) => (typeof item === 'string' ? item : text(fields(item), 'pattern'))).filter((p) => p !== '');
}

/** Joins all streams that match. */
export async function join(pattern: string): Promise<void> {
  await post('/api/join', { pattern });
}

/** Leaves a pattern. */
export async function leave(pattern: string): Promise<void> {
  await post('/api/leave', { pattern });
}

/** A stream computed from others. */
export interface Derivation {
  readonly name: string;
  readonly expression: string;
  /** Variable → `stream:channel`. */
  readonly inputs: Readonly<Record<string, string>>;
  readonly unit: string;
}

/** Acknowledges the state of an alarm that was seen. */
export async function acknowledge({ stream, channel, change }: Alarm, reason: string): Promise<void> {
  await post('/api/alarms', { stream, channel, change, reason });
}

/** Starts a derived stream. */
export async function derive(derivation: Derivation): Promise<void> {
  await post('/api/derive', derivation);
}

/** Returns the derived streams of this monitor; one that does not continue has the reason. */
export async function fetchDerived(): Promise<readonly Made[]> {
  const answer = await ask('/api/derived');
  return list({ answer }, 'answer').map(fields).map((from) => ({
    name: text(from, 'name'),
    kind: text(from, 'kind'),
    expression: text(from, 'expression'),
    input: text(from, 'input'),
    python: text(from, 'python'),
    state: text(from, 'state'),
    error: text(from, 'error'),
  }));
}

/** Ends a derived stream. */
export async function forget(name: string): Promise<void> {
  await ask(`/api/derived?${new URLSearchParams({ name })}`, { method: 'DELETE' });
}
