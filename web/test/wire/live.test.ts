import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { encodeView } from '../../dev/encode-view.mjs';
import { Live } from '../../src/live';

/** A socket that is open at once and records what it is sent. */
class Socket {
  static readonly OPEN = 1;
  static last: Socket;
  readonly sent: string[] = [];
  readonly readyState = Socket.OPEN;
  onopen = (): void => {};
  onmessage = (_event: { data: unknown }): void => {};
  onclose = (_event: { reason: string }): void => {};

  constructor() {
    Socket.last = this;
    sockets += 1;
  }

  send(text: string): void {
    this.sent.push(text);
  }
}

/** A frame of one column, the first of which follow on `kept` others. */
function frame(view: number, number: number, first: number, kept: number): ArrayBuffer {
  const body = { first, kept, pairs: [1, 2] };
  return encodeView({ frame: number, view, now: 0n, from: 0n, column: 10n, columnCount: 8, traces: [{ index: 0, body }] });
}

let sockets = 0;
let retries = 0;
const shown: number[] = [];
const malformed: string[] = [];

/** A connection with two views, which have had all of their columns. */
function follow(): Socket {
  const live = new Live('ws://test', {
    onConnection: () => {}, onRetry: () => { retries += 1; }, onMessage: () => {},
    onFrame: ({ view }) => shown.push(view), onPicture: () => undefined, onValues: () => undefined, onWaterfall: () => true,
    onMalformed: (reason) => malformed.push(reason),
  });
  live.connect();
  for (const view of [1, 2]) live.setView({ view, traces: [], widthPx: 8, spanNs: 1_000n, endNs: null });
  const socket = Socket.last;
  socket.onopen();
  for (const view of [1, 2]) socket.onmessage({ data: frame(view, view, 0, 0) });
  socket.sent.length = 0;
  return socket;
}

const asked = (socket: Socket): number[] => socket.sent.map((text) => JSON.parse(text) as Record<string, number>)
  .filter(({ type }) => String(type) === 'view').map(({ view }) => view ?? NaN);

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('WebSocket', Socket);
  sockets = 0;
  retries = 0;
  shown.length = 0;
  malformed.length = 0;
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test('a frame that does not fit costs its own view its columns, and no other', () => {
  const socket = follow();
  socket.onmessage({ data: frame(1, 3, 5, 2) });
  expect(asked(socket)).toEqual([1]);
  socket.onmessage({ data: frame(2, 4, 1, 1) });
  expect([shown, malformed.length, asked(socket)]).toEqual([[1, 2, 2], 1, [1]]);
  // Whatever the refused view is sent before it begins anew builds on nothing.
  socket.onmessage({ data: frame(1, 5, 1, 1) });
  expect([shown, malformed.length]).toEqual([[1, 2, 2], 2]);
});

test('a frame that cannot be read may have been of any view: each begins anew when it does not fit', () => {
  const socket = follow();
  socket.onmessage({ data: new ArrayBuffer(8) });
  expect([shown, malformed.length]).toEqual([[1, 2], 1]);
  socket.onmessage({ data: frame(2, 4, 1, 1) });
  expect([shown, asked(socket)]).toEqual([[1, 2], [2]]);
});

test('frames of one moment are confirmed with one message, those of a connection before with none', () => {
  const socket = follow();
  for (const number of [3, 4, 5]) socket.onmessage({ data: frame(9, number, 0, 0) });
  vi.advanceTimersByTime(20);
  expect(socket.sent).toEqual(['{"type":"shown","frames":[3,4,5]}']);
  for (let number = 6; number < 136; number += 1) socket.onmessage({ data: frame(9, number, 0, 0) });
  vi.advanceTimersByTime(20);
  // The server lets one message confirm 128.
  expect(socket.sent.slice(1).map((text) => (JSON.parse(text) as { frames: number[] }).frames.length)).toEqual([128, 2]);
  socket.sent.length = 0;
  socket.onmessage({ data: frame(9, 136, 0, 0) });
  socket.onopen();
  vi.advanceTimersByTime(20);
  expect(socket.sent.filter((text) => text.includes('shown'))).toEqual([]);
});

test('a connection that was closed is not made again before the listener has checked the permission', () => {
  follow().onclose({ reason: 'the session has ended' });
  vi.advanceTimersByTime(60_000);
  expect([sockets, retries]).toEqual([1, 1]);
});
