/**
 * The 60-second sparklines of the list, all on one canvas.
 *
 * The canvas covers what is in view and some rows beyond and moves only when the view leaves it, so that its
 * size is bounded however long the list is and scrolling draws nothing.
 */
import type { SparkBucket } from '../wire/messages';

/** One sparkline: its middle height in the list and its data. */
export interface Spark {
  readonly top: number;
  readonly height: number;
  readonly buckets: readonly SparkBucket[];
  readonly colour: string;
  readonly opacity: number;
}

/** Rows kept drawn above and below the view, in CSS pixels. */
const MARGIN_PX = 400;

/** The canvas and what is on it. */
export class Sparklines {
  readonly #canvas: HTMLCanvasElement;
  #sparks: readonly Spark[] = [];
  #holes = '';
  #top = 0;

  /** `scroller` scrolls; it contains the canvas beside the rows. */
  constructor(readonly scroller: HTMLElement, canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    scroller.addEventListener('scroll', () => {
      if (this.#leftView()) this.#draw();
    }, { passive: true });
  }

  /** Shows these sparklines; `holes` is the colour of a missing second. */
  show(sparks: readonly Spark[], holes: string): void {
    this.#sparks = sparks;
    this.#holes = holes;
    this.#draw();
  }

  #leftView(): boolean {
    const { scrollTop, clientHeight } = this.scroller;
    return scrollTop < this.#top || scrollTop + clientHeight > this.#top + this.#canvas.clientHeight;
  }

  #draw(): void {
    const { scrollTop, clientHeight } = this.scroller;
    const width = this.#canvas.clientWidth;
    const height = clientHeight + 2 * MARGIN_PX;
    const context = this.#canvas.getContext('2d');
    if (context === null || width === 0) return;
    this.#top = Math.max(0, scrollTop - MARGIN_PX);
    fit(this.#canvas, width, height);
    this.#canvas.style.transform = `translateY(${this.#top}px)`;
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, width, height);
    for (const spark of this.#sparks) {
      const top = spark.top - this.#top;
      if (top + spark.height >= 0 && top <= height) drawSpark(context, spark, top, width, this.#holes);
    }
  }
}

function fit(canvas: HTMLCanvasElement, width: number, height: number): void {
  const [wide, high] = [Math.round(width * devicePixelRatio), Math.round(height * devicePixelRatio)];
  if (canvas.width === wide && canvas.height === high) return;
  canvas.width = wide;
  canvas.height = high;
  canvas.style.height = `${height}px`;
}

function drawSpark(context: CanvasRenderingContext2D, spark: Spark, top: number, width: number, holes: string): void {
  const { buckets, height } = spark;
  let [low, high] = [Infinity, -Infinity];
  for (const bucket of buckets) {
    if (bucket === null) continue;
    low = Math.min(low, bucket[0]);
    high = Math.max(high, bucket[1]);
  }
  if (low > high) return;
  const scale = (height - 2) / (high - low || 1);
  const step = width / Math.max(1, buckets.length);
  // Before its first second a stream was not there; only what is missing after that is a hole.
  const began = buckets.findIndex((bucket) => bucket !== null);
  context.globalAlpha = spark.opacity;
  buckets.forEach((bucket, i) => {
    if (i < began) return;
    if (bucket === null) {
      context.fillStyle = holes;
      context.fillRect(i * step, top + height - 2, Math.max(1, step - 0.5), 2);
      return;
    }
    context.fillStyle = spark.colour;
    const upper = high > low ? top + 1 + (high - bucket[1]) * scale : top + height / 2;
    context.fillRect(i * step, upper, Math.max(1, step - 0.35), Math.max(1.25, (bucket[1] - bucket[0]) * scale));
  });
  context.globalAlpha = 1;
}
