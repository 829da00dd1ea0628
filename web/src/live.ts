/**
 * The connection to `/api/live`: the page's requests to the server, kept across reconnects.
 *
 * The page states its requests (views, the watched account, its visibility); this file sends them,
 * repeats them after every reconnect, and passes answers to its {@link Listener}. It draws nothing
 * and decides nothing about data.
 */
import { backoffMs } from './model/backoff';
import { decodeViewFrame, frameNumber, type ViewFrame } from './wire/frame';
import { parseJson, writeJson, type Fields } from './wire/json';
import { KeptColumns } from './wire/kept';
import { decodePicture, isPicture, writePicture, type PictureFrame, type PictureRequest } from './wire/picture';
import { MalformedFrame } from './wire/reader';
import { decodeValues, isValues, writeValues, type ValuesFrame, type ValuesRequest } from './wire/values';
import { decodeWaterfall, isWaterfall, writeWaterfall, type WaterfallFrame, type WaterfallRequest } from './wire/waterfall';
import { readMessage, writeView, type ServerMessage, type ViewRequest } from './wire/messages';

/** State of the connection. */
export type Connection =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'open' }
  | { readonly kind: 'waiting'; readonly sinceMs: number; readonly retryAtMs: number; readonly reason: string };

/** Receiver of the events. */
export interface Listener {
  onConnection(connection: Connection): void;
  /** The time of the next attempt: the listener calls {@link Live.connect} if the visitor may still read. */
  onRetry(): void;
  onMessage(message: ServerMessage): void;
  onFrame(frame: ViewFrame): void;
  onPicture(frame: PictureFrame): void;
  onValues(frame: ValuesFrame): void;
  /** Returns whether it fits the frames before it. */
  onWaterfall(frame: WaterfallFrame): boolean;
  /** A frame or message that could not be read: counted and shown, never fatal. */
  onMalformed(reason: string): void;
}

/** Requests that change faster than this (a drag) are joined: each costs the server a pass over its memory. */
const JOIN_MS = 30;
/** The most frames that the server lets one message confirm. */
const MAX_CONFIRMED = 128;
/** Frames of one moment are confirmed together: one message instead of one for each plot. */
const CONFIRM_MS = 4;
/** Time without messages after which a connection counts as dead: the server sends every second. */
const SILENCE_MS = 8_000;

/** The live connection. */
export class Live {
  #socket: WebSocket | null = null;
  #attempt = 0;
  #lostAtMs: number | null = null;
  #heardAtMs = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #flush: ReturnType<typeof setTimeout> | undefined;
  readonly #views = new Map<number, string>();
  readonly #pending = new Set<number>();
  /** Frames drawn and not confirmed. */
  #drawn: number[] = [];
  #confirm: ReturnType<typeof setTimeout> | undefined;
  readonly #kept = new KeptColumns();
  readonly #waterfalls = new Set<number>();
  #account: string | null = null;
  #visible = true;

  constructor(
    readonly url: string,
    readonly listener: Listener,
  ) {
    setInterval(() => this.#watchSilence(), SILENCE_MS / 4);
  }

  /** Connects. */
  connect(): void {
    clearTimeout(this.#retry);
    this.#socket?.close();
    if (this.#lostAtMs === null) this.listener.onConnection({ kind: 'connecting' });
    const socket = new WebSocket(this.url);
    socket.binaryType = 'arraybuffer';
    this.#socket = socket;
    this.#heardAtMs = Date.now();
    socket.onopen = () => this.#opened(socket);
    socket.onmessage = (event: MessageEvent<unknown>) => this.#heard(socket, event.data);
    socket.onclose = ({ reason }) => this.#closed(socket, reason);
  }

  /** Ends the connection, and connects no more until asked to: a visitor without rights would be refused every time. */
  disconnect(): void {
    clearTimeout(this.#retry);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  /** Asks for a view, or changes it; the same request twice is sent once. */
  setView(request: ViewRequest): void {
    this.#ask(request.view, writeView(request));
  }

  /** Asks for whole samples in a view, or changes what is asked for. */
  setPicture(request: PictureRequest): void {
    this.#ask(request.view, writePicture(request));
  }

  /** Asks for newest values in a view, or changes what is asked for. */
  setValues(request: ValuesRequest): void {
    this.#ask(request.view, writeValues(request));
  }

  /** Asks for samples over time in a view, or changes what is asked for. */
  setWaterfall(request: WaterfallRequest): void {
    this.#waterfalls.add(request.view);
    this.#ask(request.view, writeWaterfall(request));
  }

  #ask(view: number, written: string): void {
    if (this.#views.get(view) === written) return;
    this.#views.set(view, written);
    this.#pending.add(view);
    this.#flush ??= setTimeout(() => this.#sendPending(), JOIN_MS);
  }

  /** Gives a view up. */
  closeView(view: number): void {
    if (this.#views.delete(view)) this.#send({ type: 'close', view });
    this.#pending.delete(view);
    this.#kept.forget(view);
    this.#waterfalls.delete(view);
  }

  /** Tells the server whether the page is visible: to a hidden one it sends nothing. */
  setVisible(visible: boolean): void {
    this.#visible = visible;
    // Silence while hidden was asked for.
    this.#heardAtMs = Date.now();
    this.#send({ type: 'visible', visible });
  }

  /** Requests one stream's account, or none. */
  watchAccount(stream: string | null): void {
    if (this.#account === stream) return;
    this.#account = stream;
    this.#send({ type: 'watch_account', stream });
  }

  /** Sends a message now, or never: without a connection it is gone. */
  say(message: Fields): void {
    this.#send(message);
  }

  /** Gives the credit of a frame back. */
  shown(frame: number): void {
    this.#drawn.push(frame);
    this.#confirm ??= setTimeout(() => this.#sendDrawn(), CONFIRM_MS);
  }

  #sendDrawn(): void {
    this.#confirm = undefined;
    const frames = this.#drawn.splice(0);
    for (let first = 0; first < frames.length; first += MAX_CONFIRMED) this.#send({ type: 'shown', frames: frames.slice(first, first + MAX_CONFIRMED) });
  }

  #opened(socket: WebSocket): void {
    if (socket !== this.#socket) return;
    // Numbers of the connection before.
    this.#drawn = [];
    this.#attempt = 0;
    this.#lostAtMs = null;
    this.listener.onConnection({ kind: 'open' });
    if (!this.#visible) this.#send({ type: 'visible', visible: false });
    if (this.#account !== null) this.#send({ type: 'watch_account', stream: this.#account });
    for (const view of this.#views.keys()) this.#pending.add(view);
    this.#sendPending();
  }

  #heard(socket: WebSocket, data: unknown): void {
    if (socket !== this.#socket) return;
    this.#heardAtMs = Date.now();
    try {
      if (data instanceof ArrayBuffer && isPicture(data)) this.#onPicture(decodePicture(data));
      else if (data instanceof ArrayBuffer && isValues(data)) this.#onValues(decodeValues(data));
      else if (data instanceof ArrayBuffer && isWaterfall(data)) this.#onWaterfall(this.#decodeWaterfall(data));
      else if (data instanceof ArrayBuffer) this.#onFrame(this.#decode(data));
      else if (typeof data === 'string') this.listener.onMessage(readMessage(parseJson(data)));
    } catch (error) {
      if (!(error instanceof MalformedFrame || error instanceof SyntaxError)) throw error;
      this.#giveBack(data);
      this.listener.onMalformed(error.message);
    }
  }

  /** A frame that cannot be read may have been of any view: none has a predecessor for its next frame. */
  #decode(data: ArrayBuffer): ViewFrame {
    try {
      return decodeViewFrame(data);
    } catch (error) {
      this.#kept.clear();
      throw error;
    }
  }

  /** A frame of a view that was closed meanwhile only gives its credit back. */
  #onFrame(frame: ViewFrame): void {
    if (!this.#views.has(frame.view)) return this.shown(frame.frame);
    this.listener.onFrame(this.#complete(frame));
  }

  #onPicture(frame: PictureFrame): void {
    if (this.#views.has(frame.view)) this.listener.onPicture(frame);
    else this.shown(frame.frame);
  }

  #onValues(frame: ValuesFrame): void {
    if (this.#views.has(frame.view)) this.listener.onValues(frame);
    else this.shown(frame.frame);
  }

  #onWaterfall(frame: WaterfallFrame): void {
    if (!this.#views.has(frame.view)) this.shown(frame.frame);
    else if (!this.listener.onWaterfall(frame)) this.#askAgain([frame.view]);
  }

  /** A frame that cannot be read may have been of any waterfall: columns are sent once, so all are asked for again. */
  #decodeWaterfall(data: ArrayBuffer): WaterfallFrame {
    try {
      return decodeWaterfall(data);
    } catch (error) {
      this.#askAgain(this.#waterfalls);
      throw error;
    }
  }

  #askAgain(views: Iterable<number>): void {
    for (const view of views) this.#pending.add(view);
    this.#sendPending();
  }

  /** A view whose frame does not fit is asked for again: then the server begins with all columns. */
  #complete(frame: ViewFrame): ViewFrame {
    try {
      return this.#kept.complete(frame);
    } catch (error) {
      this.#kept.forget(frame.view);
      this.#pending.add(frame.view);
      this.#sendPending();
      throw error;
    }
  }

  /** A frame that cannot be shown is no longer in flight: without its credit the server would wait forever. */
  #giveBack(data: unknown): void {
    const frame = data instanceof ArrayBuffer ? frameNumber(data) : null;
    if (frame !== null) this.shown(frame);
  }

  /** `reason`: why the server closed it, if it says so. */
  #closed(socket: WebSocket, reason: string): void {
    if (socket !== this.#socket) return;
    this.#socket = null;
    const now = Date.now();
    this.#lostAtMs ??= now;
    const wait = backoffMs(this.#attempt, Math.random());
    this.#attempt += 1;
    this.#retry = setTimeout(() => this.listener.onRetry(), wait);
    this.listener.onConnection({ kind: 'waiting', sinceMs: this.#lostAtMs, retryAtMs: now + wait, reason });
  }

  /** A host that vanished closes nothing: silence must be detected. Hidden pages are silent on purpose. */
  #watchSilence(): void {
    const silent = Date.now() - this.#heardAtMs > SILENCE_MS;
    const socket = this.#socket;
    if (!silent || !this.#visible || socket === null) return;
    socket.close();
    this.#closed(socket, '');
  }

  #sendPending(): void {
    clearTimeout(this.#flush);
    this.#flush = undefined;
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    for (const view of this.#pending) {
      const written = this.#views.get(view);
      if (written !== undefined) this.#socket.send(written);
    }
    this.#pending.clear();
  }

  #send(message: Fields): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(writeJson(message));
  }
}
