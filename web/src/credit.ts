/**
 * Credit of frames: returned to the server at the pace of the drawing.
 *
 * It goes back at once for a view's first frame since the last drawing, which the next one will show, else only after
 * that drawing. So every view continues at full pace, and a page that draws slowly is still sent no more than it draws.
 */
export class Credit {
  /** Frames whose credit waits for the next drawing: the server's credit bounds them. */
  readonly #owed: number[] = [];
  /** Views that have a frame which the next drawing will show. */
  readonly #undrawn = new Set<number>();

  /** `give` returns the credit of a frame. */
  constructor(readonly give: (frame: number) => void) {}

  /** A frame of a view has come. */
  took({ view, frame }: { readonly view: number; readonly frame: number }): void {
    if (this.#undrawn.has(view)) {
      this.#owed.push(frame);
      return;
    }
    this.#undrawn.add(view);
    this.give(frame);
  }

  /** What has come is drawn. */
  drawn(): void {
    this.#undrawn.clear();
    this.#owed.splice(0).forEach((frame) => this.give(frame));
  }

  /** The connection is gone, and with it what was owed on it. */
  forget(): void {
    this.#owed.length = 0;
    this.#undrawn.clear();
  }
}
