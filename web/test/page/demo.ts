/**
 * The real demo, and further monitor servers on its bus: separate processes over real multicast.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from '../../src/wire/json';
import { killAll, privateBus, Program, type Ended } from './command';

/** A demo that runs; it would end by itself, should everything else fail. */
const AT_MOST = '10m';
/** How long a reader that is asked to end lets its streams end first. */
const PATIENCE = '20s';

/** Where demos keep their archives. */
const folders = new Set<string>();

/** The demo. */
export interface Demo {
  readonly url: string;
  readonly bus: string;
  readonly archive: string;
  /** Ends it in order; code 0 says that every account closed, balanced and explained. */
  end(): Promise<Ended>;
}

/** Starts the demo on ports and in a folder of its own. */
export async function startDemo(): Promise<Demo> {
  const bus = await privateBus();
  const folder = await mkdtemp(join(tmpdir(), 'tallycast-page-'));
  folders.add(folder);
  const program = new Program(['demo', '--headless', '--json', '--duration', AT_MOST, '--listen', '127.0.0.1:0', '--dir', folder, '--bus', bus]);
  const url = (await program.word('page ')).replace(/\/$/, '');
  return { url, bus, archive: join(folder, 'archive'), end: () => program.end() };
}

/** Leaves nothing behind, however the tests went. */
export async function cleanUp(): Promise<void> {
  await killAll();
  await Promise.all([...folders].map((folder) => rm(folder, { recursive: true, force: true, maxRetries: 5 })));
}

/** A monitor server. */
export interface Monitor {
  readonly url: string;
  readonly program: Program;
}

/** Starts a monitor server for these streams; at the address of one before, it takes that one's place. */
export async function startMonitor(bus: string, patterns: readonly string[], options: readonly string[] = [], url = 'http://127.0.0.1:0'): Promise<Monitor> {
  const listen = url.replace('http://', '');
  const program = new Program(['monitor', ...patterns, '--json', '--with-parent', '--patience', PATIENCE, '--listen', listen, '--bus', bus, ...options]);
  const listening = await program.object('where it listens', (object) => object['event'] === 'listening');
  return { url: `http://${text(listening, 'address')}`, program };
}
