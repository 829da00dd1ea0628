/**
 * Paints a sample as an image: its pixels in colours, the colour bar, the place looked at, and the profiles of the row and
 * the column through it.
 */
import type { ChartTheme } from '../chart';
import { colourise } from '../model/colour-map';
import { columnOf, fitted, rowOf, type Box, type Place } from '../model/picture';
import { valueTicks, type Range } from '../model/scale';
import type { Sample } from '../wire/picture';
import { hatch, leftTicks, line, lowerTicks, type Tick } from './axes';
import { BAR_PX, paintBar } from './colour-bar';

/** What an image is painted from. */
export interface ImageScene {
  readonly sample: Sample;
  readonly range: Range;
  readonly unit: string;
  readonly place: Place | null;
  readonly theme: ChartTheme;
  /** Colour of the profiles. */
  readonly pen: string;
}

/** Smaller panels have no room for profiles. */
const ROOMY_PX = { width: 460, height: 250 };
const PROFILE_PX = { width: 84, height: 62 };
const GAP_PX = 12;

/** Keeps the small canvas between two paintings. */
export class ImagePainter {
  readonly #pixels = document.createElement('canvas');
  #box: Box = { x: 0, y: 0, width: 1, height: 1 };

  /** Where the image was painted last. */
  get box(): Box {
    return this.#box;
  }

  /** Paints into `width` × `height` CSS pixels. */
  paint(pen: CanvasRenderingContext2D, width: number, height: number, scene: ImageScene): void {
    const { sample, theme } = scene;
    const profiles = width >= ROOMY_PX.width && height >= ROOMY_PX.height;
    const labels = theme.fontPx * 5;
    const [left, below, bar] = [theme.fontPx * 4, theme.fontPx * 2, GAP_PX + BAR_PX + labels];
    const room = {
      x: left, y: GAP_PX + theme.fontPx,
      width: Math.max(20, width - left - bar - GAP_PX - (profiles ? PROFILE_PX.width + GAP_PX : 0)),
      height: Math.max(20, height - below - GAP_PX - theme.fontPx - (profiles ? PROFILE_PX.height + GAP_PX : 0)),
    };
    this.#box = fitted(sample.size, room);
    this.#paintPixels(pen, scene);
    leftTicks(pen, this.#box, indexTicks(sample.size[0], this.#box.height / (theme.fontPx * 4), true), theme, false);
    lowerTicks(pen, this.#box, indexTicks(sample.size[1], this.#box.width / (theme.fontPx * 6), false), theme, false);
    const end = this.#box.x + this.#box.width;
    if (sample.low <= sample.high) paintBar(pen, { ...this.#box, x: end + GAP_PX + (profiles ? PROFILE_PX.width + GAP_PX : 0) }, scene);
    if (scene.place === null) return;
    if (profiles) this.#paintProfiles(pen, scene, scene.place);
    this.#paintCross(pen, scene, scene.place);
  }

  #paintPixels(pen: CanvasRenderingContext2D, { sample, range, theme }: ImageScene): void {
    const { rows, columns, size, block } = sample;
    const small = this.#pixels;
    if (small.width !== columns) small.width = columns;
    if (small.height !== rows) small.height = rows;
    const context = small.getContext('2d');
    if (context === null) return;
    const data = context.createImageData(columns, rows);
    colourise(sample.values, range, data.data);
    context.putImageData(data, 0, 0);
    const { x, y, width, height } = this.#box;
    hatch(pen, this.#box, theme);
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width, height);
    pen.clip();
    pen.imageSmoothingEnabled = false;
    // Blocks at the edge have less than a whole one.
    pen.drawImage(small, x, y, (width * columns * block[1]) / size[1], (height * rows * block[0]) / size[0]);
    pen.restore();
  }

  #paintProfiles(pen: CanvasRenderingContext2D, scene: ImageScene, { row, column }: Place): void {
    const { sample, range, theme } = scene;
    const { x, y, width, height } = this.#box;
    const below: Box = { x, y: y + height + theme.fontPx * 2 + 4, width, height: PROFILE_PX.height };
    const beside: Box = { x: x + width + GAP_PX, y, width: PROFILE_PX.width, height };
    for (const box of [below, beside]) {
      pen.strokeStyle = theme.grid;
      pen.lineWidth = 1;
      pen.strokeRect(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1);
    }
    const share = (value: number): number => Math.max(0, Math.min(1, (value - range.low) / (range.high - range.low)));
    const across = sample.block[1] / sample.size[1];
    profile(pen, scene.pen, rowOf(sample, row), (k, value) => [below.x + Math.min(1, (k + 0.5) * across) * width, below.y + (1 - share(value)) * below.height]);
    const along = sample.block[0] / sample.size[0];
    profile(pen, scene.pen, columnOf(sample, column), (k, value) => [beside.x + share(value) * beside.width, beside.y + Math.min(1, (k + 0.5) * along) * height]);
  }

  #paintCross(pen: CanvasRenderingContext2D, { sample, theme }: ImageScene, { row, column }: Place): void {
    const { x, y, width, height } = this.#box;
    const atX = x + Math.min(1, ((column + 0.5) * sample.block[1]) / sample.size[1]) * width;
    const atY = y + Math.min(1, ((row + 0.5) * sample.block[0]) / sample.size[0]) * height;
    for (const [colour, thick] of [[theme.ground, 3], [theme.ink, 1]] as const) {
      pen.globalAlpha = thick === 3 ? 0.5 : 0.9;
      line(pen, colour, [x, atY], [x + width, atY], thick);
      line(pen, colour, [atX, y], [atX, y + height], thick);
    }
    pen.globalAlpha = 1;
  }
}

/** Draws the values of a line of pixels; what is no number interrupts it. */
function profile(pen: CanvasRenderingContext2D, colour: string, values: ArrayLike<number>, at: (k: number, value: number) => [number, number]): void {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.25;
  pen.beginPath();
  let down = false;
  for (let k = 0; k < values.length; k += 1) {
    const value = values[k] ?? NaN;
    if (Number.isNaN(value)) {
      down = false;
      continue;
    }
    const [x, y] = at(k, value);
    if (down) pen.lineTo(x, y);
    else pen.moveTo(x, y);
    down = true;
    if (values.length === 1) pen.lineTo(x + 1, y);
  }
  pen.stroke();
}

/** Ticks at whole indices, whose elements they are in the middle of; `fromTop`: the first one is at the upper end. */
function indexTicks(size: number, wanted: number, fromTop: boolean): readonly Tick[] {
  const whole = valueTicks({ low: 0, high: Math.max(1, size - 1) }, Math.max(1, wanted)).filter((at) => Number.isInteger(at) && at < size);
  return whole.map((at) => ({ share: fromTop ? 1 - (at + 0.5) / size : (at + 0.5) / size, label: String(at) }));
}
