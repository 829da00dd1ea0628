/**
 * A viewer without a browser: speaks to `/api/live` as the page does, and can stop reading.
 */
import WebSocket from 'ws';
import { decodeViewFrame } from '../../src/wire/frame';
import { parseJson } from '../../src/wire/json';
import { readMessage, writeView, type BrowserLoss, type TraceRequest } from '../../src/wire/messages';
import { until } from './browser';

/** What it looks at. */
export interface Look {
  readonly trace: TraceRequest;
  readonly spanNs: bigint;
}

/** A viewer that follows one trace. */
export class Viewer {
  readonly #socket: WebSocket;
  /** Frames that arrived. */
  frames = 0;
  /** When the newest sample it was shown was taken. */
  newest = 0n;
  /** What the server last said it never showed this viewer, and how often it has said so. */
  loss: BrowserLoss | null = null;
  told = 0;

  constructor(url: string, { trace, spanNs }: Look) {
    this.#socket = new WebSocket(`${url.replace('http', 'ws')}/api/live`);
    this.#socket.binaryType = 'arraybuffer';
    this.#socket.on('open', () => this.#socket.send(writeView({ view: 1, traces: [trace], widthPx: 500, spanNs, endNs: null })));
    this.#socket.on('message', (data, binary) => this.#hear(data, binary));
  }

  /** Waits until it was shown samples taken at `time` or later. */
  async reaches(time: bigint): Promise<void> {
    await until(`a viewer to be shown ${time}`, () => this.newest >= time);
  }

  /** Waits until the server has told it its losses once more. */
  async toldAgain(): Promise<BrowserLoss> {
    const before = this.told;
    await until('word of what a viewer was not shown', () => this.told > before);
    if (this.loss === null) throw new Error('told a moment ago');
    return this.loss;
  }

  /** Reads nothing any more, as a process that was stopped. */
  stop(): void {
    this.#socket.pause();
  }

  /** Reads on. */
  resume(): void {
    this.#socket.resume();
  }

  close(): void {
    this.#socket.terminate();
  }

  #hear(data: WebSocket.RawData, binary: boolean): void {
    if (binary && data instanceof ArrayBuffer) this.#show(data);
    else if (data instanceof Buffer) this.#read(data.toString());
  }

  #show(data: ArrayBuffer): void {
    const frame = decodeViewFrame(data);
    this.frames += 1;
    this.newest = frame.traces[0]?.newest ?? this.newest;
    this.#socket.send(JSON.stringify({ type: 'shown', frames: [frame.frame] }));
  }

  #read(text: string): void {
    const message = readMessage(parseJson(text));
    if (message.type !== 'browser') return;
    this.loss = message.loss;
    this.told += 1;
  }
}
