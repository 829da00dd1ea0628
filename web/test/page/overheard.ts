/**
 * What the page and its server say to each other, overheard: the only way to know from outside whether the picture is
 * already that of the window which was asked for last.
 */
import type { Page } from 'playwright-core';
import { decodeViewFrame, type ViewFrame } from '../../src/wire/frame';
import { MalformedFrame } from '../../src/wire/reader';
import { fields, nanoseconds, number, parseJson, text, type Fields } from '../../src/wire/json';

/** What was said on the newest connection of a page. */
class Talk {
  /** View frames that came, over all connections. */
  frames = 0;
  readonly #asked = new Map<number, Fields>();
  readonly #shown = new Map<number, ViewFrame>();

  restart(): void {
    this.#asked.clear();
    this.#shown.clear();
  }

  said(message: Fields): void {
    const view = number(message, 'view');
    if (text(message, 'type') === 'view') this.#asked.set(view, message);
    else if (text(message, 'type') === 'close') this.#asked.delete(view);
  }

  sent(bytes: Buffer): void {
    this.frames += 1;
    try {
      const frame = decodeViewFrame(new Uint8Array(bytes).buffer);
      this.#shown.set(frame.view, frame);
    } catch (error) {
      // What the page is to make of it is the test's business.
      if (!(error instanceof MalformedFrame)) throw error;
    }
  }

  /** Whether the newest frame of every view is of the window and width that the page asked for last. */
  get answered(): boolean {
    return [...this.#asked].every(([view, request]) => {
      const frame = this.#shown.get(view);
      return frame !== undefined && answers(frame, request);
    });
  }
}

/** A view that follows is answered by any frame that does; one of the past by its own window, to a column. */
function answers(frame: ViewFrame, request: Fields): boolean {
  if (frame.live || request['end_ns'] === null) return frame.live && request['end_ns'] === null;
  const span = frame.column * BigInt(frame.columnCount);
  const near = (time: bigint, other: bigint): boolean => time - other <= frame.column && other - time <= frame.column;
  return near(frame.from + span, nanoseconds(request, 'end_ns'))
    && near(frame.from, nanoseconds(request, 'end_ns') - nanoseconds(request, 'span_ns'))
    && (frame.slow || frame.columnCount === number(request, 'width_px'));
}

const talks = new WeakMap<Page, Talk>();

/** Listens to a page; from before it is loaded, or there is something it has not heard. */
export function overhear(page: Page): void {
  const talk = new Talk();
  talks.set(page, talk);
  page.on('websocket', (socket) => {
    talk.restart();
    socket.on('framesent', ({ payload }) => { if (typeof payload === 'string') talk.said(fields(parseJson(payload))); });
    socket.on('framereceived', ({ payload }) => { if (typeof payload !== 'string') talk.sent(payload); });
  });
}

/** Returns what was overheard of a page. */
export function talkOf(page: Page): Talk {
  const talk = talks.get(page);
  if (talk === undefined) throw new Error('nobody listens to this page');
  return talk;
}
