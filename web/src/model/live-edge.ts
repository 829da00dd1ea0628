/** The live edge: the newest time that a frame has shown. Times are nanoseconds since 1970. */
export class LiveEdge {
  #time: bigint;
  #atMs: number;

  /** Begins at a time; `nowMs` is the page's own clock. */
  constructor(time: bigint, nowMs: number) {
    this.#time = time;
    this.#atMs = nowMs;
  }

  /** The newest time shown. */
  get time(): bigint {
    return this.#time;
  }

  /** A frame that follows the newest data reaches to this time. */
  reach(time: bigint, nowMs: number): void {
    if (time <= this.#time) return;
    this.#time = time;
    this.#atMs = nowMs;
  }

  /** Returns where the edge is by now, had frames come without a pause. */
  now(nowMs: number): bigint {
    return this.#time + BigInt(Math.round((nowMs - this.#atMs) * 1e6));
  }
}
