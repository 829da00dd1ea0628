/**
 * What runs on a test's own bus: publishers, recorders, monitor servers, or the whole demo. All of them are separate
 * processes over real multicast.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from '../../src/wire/json';
import { killAll, privateBus, Program, type Ended } from './command';

/** The demo would end by itself, should everything else fail. */
const AT_MOST = '10m';
/** How long a reader that is asked to end lets its streams end first. */
const PATIENCE = '20s';
/** The demo's test signal, for tests that need no more than it: two channels of 1 kHz, half a turn apart. */
export const SINE: readonly string[] = ['test/sine', '--wave', 'sine', '--rate', '1k', '--channels', '2', '--frequency', '2', '--unit', 'V'];

const folders = new Set<string>();

/** Makes a folder that is gone after {@link cleanUp}. */
export async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tallycast-page-'));
  folders.add(folder);
  return folder;
}

/** Leaves nothing behind, however the tests went. */
export async function cleanUp(): Promise<void> {
  await killAll();
  await Promise.all([...folders].map((folder) => rm(folder, { recursive: true, force: true, maxRetries: 5 })));
}

/** The demo. */
export interface Demo {
  readonly url: string;
  readonly program: Program;
  /** Ends it in order; code 0 says that every account closed, balanced and explained. */
  end(): Promise<Ended>;
}

/** Starts the demo on ports and in a folder of its own, with more options if need be. */
export async function startDemo(options: readonly string[] = []): Promise<Demo> {
  const [bus, folder] = [await privateBus(), await newFolder()];
  const program = new Program(['demo', '--headless', '--json', '--duration', AT_MOST, '--listen', '127.0.0.1:0', '--dir', folder, '--bus', bus, ...options]);
  const url = (await program.word('page ')).replace(/\/$/, '');
  return { url, program, end: () => program.end() };
}

/** A monitor server. */
export interface Monitor {
  readonly url: string;
  readonly program: Program;
}

/** Starts a monitor server for these streams; at the address of one before, it takes that one's place. */
export async function startMonitor(bus: string, patterns: readonly string[], options: readonly string[] = [], url = 'http://127.0.0.1:0'): Promise<Monitor> {
  const listen = url.replace('http://', '');
  const program = new Program(['monitor', ...patterns, '--listen', listen, ...reader(bus), ...options]);
  const listening = await program.object('where it listens', (object) => object['event'] === 'listening');
  return { url: `http://${text(listening, 'address')}`, program };
}

/** Starts a monitor server on a bus of its own, on which {@link SINE} is published. */
export async function startSineMonitor(): Promise<Monitor> {
  const bus = await privateBus();
  publish(bus, SINE);
  return startMonitor(bus, ['test/*']);
}

/** Starts a recorder of everything on a bus. */
export function record(bus: string, archive: string): Program {
  return new Program(['record', '**', '--run', 'page', '--root', archive, ...reader(bus)]);
}

/** Starts a reader of one stream. */
export function subscribe(bus: string, stream: string): Program {
  return new Program(['sub', stream, '--reader', 'desk', ...reader(bus)]);
}

/** Starts a publisher of what these words of `tallycast pub` say. */
export function publish(bus: string, words: readonly string[]): Program {
  return new Program(['pub', ...words, '--json', '--with-parent', '--bus', bus]);
}

const reader = (bus: string): readonly string[] => ['--json', '--with-parent', '--patience', PATIENCE, '--bus', bus];
