/**
 * The command `tallycast` as the page tests run it: started, listened to, ended. Nothing outlives the tests:
 * what they did not end is killed, and readers end by themselves when the pipe to this process closes.
 */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fields, parseJson, type Fields } from '../../src/wire/json';
import { until } from './browser';

/** How a command ended, what it said and the objects it printed. */
export interface Ended {
  readonly code: number | null;
  readonly said: string;
  readonly objects: readonly Fields[];
}

/** Ending takes as long as accounts take to close: settling, and a busy machine. */
const ENDING_MS = 180_000;
/** In memory: an app answers a command when its log has it, however busy a disk is. */
const STATES = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const running = new Set<Program>();
process.on('exit', () => running.forEach((program) => program.kill()));

/** A running `tallycast`. */
export class Program {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #said: string[] = [];
  readonly #objects: Fields[] = [];
  /** Where the command keeps what it keeps, unless a test names another folder. */
  readonly #state = mkdtempSync(join(STATES, 'tallycast-state-'));
  #closed = false;

  constructor(readonly args: readonly string[]) {
    this.#process = spawn(binary(), args, { env: { XDG_STATE_HOME: this.#state, ...environment() } });
    running.add(this);
    this.#process.on('close', () => {
      this.#closed = true;
      rmSync(this.#state, { recursive: true, force: true });
      running.delete(this);
    });
    createInterface(this.#process.stderr).on('line', (line) => this.#said.push(line));
    createInterface(this.#process.stdout).on('line', (line) => this.#objects.push(fields(parseJson(line))));
  }

  /** Waits for an object on standard output. */
  async object(what: string, wanted: (object: Fields) => boolean): Promise<Fields> {
    await this.#until(what, () => this.#objects.some(wanted));
    return this.#objects.find(wanted) ?? {};
  }

  /** Waits for words on standard error and returns what follows them in their line. */
  async word(before: string): Promise<string> {
    const find = (): string | undefined => this.#said.find((line) => line.startsWith(before));
    await this.#until(before, () => find() !== undefined);
    return (find() ?? '').slice(before.length).trim();
  }

  /** Ends the command as Ctrl-C does. */
  async end(): Promise<Ended> {
    this.#process.kill('SIGINT');
    await until(`the end of ${this}`, () => this.#closed, ENDING_MS);
    return { code: this.#process.exitCode, said: this.#said.join('\n'), objects: this.#objects };
  }

  /** Ends the command as a power cut does. */
  async crash(): Promise<void> {
    this.kill();
    await until(`the end of ${this}`, () => this.#closed);
  }

  kill(): void {
    this.#process.kill('SIGKILL');
  }

  toString(): string {
    return `tallycast ${this.args.join(' ')}`;
  }

  async #until(what: string, probe: () => boolean): Promise<void> {
    await until(`${this} to say ${what}`, () => this.#closed || probe());
    if (!probe()) throw new Error(`${this} ended without saying ${what}:\n${this.#said.join('\n')}`);
  }
}

/** Kills whatever a test file has left. */
export function killAll(): Promise<unknown> {
  return Promise.all([...running].map((program) => program.crash()));
}

/**
 * Returns a bus on the loopback interface that no other test uses. Readers have what they hear: a beginning is held for
 * half a second, and they may be later.
 */
export async function privateBus(): Promise<string> {
  return `udp://239.84.0.0:${await freePort()}?iface=lo&start=now`;
}

/**
 * Ports below those that the kernel chooses from (`net.ipv4.ip_local_port_range`): one of these could be taken between the
 * look and its use. Another process, of another file, begins elsewhere.
 */
const PORTS = { first: 12_000, count: 18_000 };
let next = process.pid * 97;

async function freePort(): Promise<number> {
  for (let tries = 0; tries < PORTS.count; tries += 1) {
    const port = PORTS.first + (next % PORTS.count);
    next += 1;
    if (await isFree(port)) return port;
  }
  throw new Error('a machine has a free port');
}

function isFree(port: number): Promise<boolean> {
  const socket = createSocket('udp4');
  return new Promise((resolve) => {
    socket.once('error', () => socket.close(() => resolve(false)));
    socket.bind(port, () => socket.close(() => resolve(true)));
  });
}

/** Returns the path of the command. */
export function binary(): string {
  const built = process.env['TALLYCAST_BIN'] ?? fileURLToPath(new URL('../../../target/debug/tallycast', import.meta.url));
  if (!existsSync(built)) throw new Error(`${built} is missing: cargo build -p tallycast-cli`);
  return built;
}

/** Nothing of the surroundings decides what the command does. */
function environment(): NodeJS.ProcessEnv {
  const { TALLYCAST_ACCESS: _access, TALLYCAST_BUS: _bus, TALLYCAST_CONFIG: _config, TALLYCAST_LOG: _log, ...rest } = process.env;
  return { ...rest, XDG_CONFIG_HOME: '/nonexistent', NO_COLOR: '1' };
}
