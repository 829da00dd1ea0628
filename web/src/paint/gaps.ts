/**
 * Draws gaps: a hatched band over the full height, and a loss strip under the plot on which no gap is ever
 * too narrow to see.
 *
 * The hatch distinguishes places also without colour: each has its own angle, spacing or outline.
 */
import { MIN_BAND_PX, MIN_TICK_PX, type Band } from '../model/gaps';
import type { Place } from '../model/stage';
import type { Area } from './area';

/** The colours the hatches are made of, from the style sheet. */
export interface GapColours {
  readonly places: Readonly<Record<Place, string>>;
  /** Background of the plot: what the white stripes of the unexplained hatch contrast with. */
  readonly ground: string;
  readonly ink: string;
}

/** Height of the loss strip in CSS pixels. */
export const STRIP_PX = 6;

/** The size of a hatch tile in CSS pixels; stripes at 45° meet at its edges. */
const TILE_PX = 8;

type Hatch = 'rising' | 'falling' | 'dense' | 'cross' | 'upright' | 'level' | 'dots' | 'bold';
const HATCHES: Readonly<Record<Place, Hatch>> = {
  publisher: 'falling',
  injected: 'upright',
  sender: 'rising',
  network: 'cross',
  receiver: 'rising',
  reader: 'dense',
  browser: 'level',
  unexplained: 'bold',
  unsettled: 'dots',
};

/** Makes and keeps the hatch patterns of one theme and resolution. */
export class Hatches {
  readonly #made = new Map<Place, CanvasPattern | string>();

  constructor(
    readonly colours: GapColours,
    readonly ratio: number,
  ) {}

  /** Returns the fill for gaps of a place. */
  fill(context: CanvasRenderingContext2D, place: Place): CanvasPattern | string {
    const known = this.#made.get(place);
    if (known !== undefined) return known;
    const made = this.#make(context, place);
    this.#made.set(place, made);
    return made;
  }

  #make(context: CanvasRenderingContext2D, place: Place): CanvasPattern | string {
    const size = Math.max(4, Math.round(TILE_PX * this.ratio));
    const tile = document.createElement('canvas');
    tile.width = size;
    tile.height = size;
    const pen = tile.getContext('2d');
    if (pen === null) return this.colours.places[place];
    drawTile(pen, HATCHES[place], size, this.colours, this.colours.places[place]);
    return context.createPattern(tile, 'repeat') ?? this.colours.places[place];
  }
}

function drawTile(pen: CanvasRenderingContext2D, hatch: Hatch, size: number, colours: GapColours, colour: string): void {
  const bold = hatch === 'bold';
  pen.fillStyle = bold ? colours.ground : colour;
  pen.globalAlpha = bold ? 1 : 0.14;
  pen.fillRect(0, 0, size, size);
  pen.globalAlpha = bold ? 0.9 : 0.75;
  pen.strokeStyle = bold ? colours.ink : colour;
  pen.fillStyle = pen.strokeStyle;
  pen.lineWidth = bold ? size / 2.83 : size / 7;
  pen.beginPath();
  for (const [x0, y0, x1, y1] of STRIPES[hatch]) {
    pen.moveTo(x0 * size, y0 * size);
    pen.lineTo(x1 * size, y1 * size);
  }
  pen.stroke();
  if (hatch === 'dots') pen.fillRect(size * 0.375, size * 0.375, size * 0.25, size * 0.25);
}

type Stripe = readonly [number, number, number, number];
const RISING: readonly Stripe[] = [[-0.5, 0.5, 0.5, -0.5], [-0.5, 1.5, 1.5, -0.5], [0.5, 1.5, 1.5, 0.5]];
const FALLING: readonly Stripe[] = RISING.map(([x0, y0, x1, y1]) => [x0, 1 - y0, x1, 1 - y1]);
const STRIPES: Readonly<Record<Hatch, readonly Stripe[]>> = {
  rising: RISING,
  falling: FALLING,
  cross: [...RISING, ...FALLING],
  dense: [...RISING, [-0.5, 1, 1, -0.5], [0, 1.5, 1.5, 0]],
  upright: [[0.5, 0, 0.5, 1]],
  level: [[0, 0.5, 1, 0.5]],
  dots: [],
  bold: RISING,
};

/** Draws the hatched bands of all gaps wide enough for one; `offset` in the bands is from the area's left, in CSS pixels. */
export function paintBands(context: CanvasRenderingContext2D, all: readonly Band[], area: Area, hatches: Hatches): void {
  for (const { gap, left, width } of all) {
    if (width < MIN_BAND_PX) continue;
    const x = area.left + left * area.ratio;
    const wide = width * area.ratio;
    context.fillStyle = hatches.fill(context, gap.stage.place);
    context.fillRect(x, area.top, wide, area.height);
    paintEdges(context, gap.stage.place, x, wide, area, hatches);
  }
}

/** Edges make a hole's two ends exact; an injected one gets a full outline, being a label and not a fault. */
function paintEdges(context: CanvasRenderingContext2D, place: Place, x: number, wide: number, area: Area, hatches: Hatches): void {
  const line = Math.max(1, Math.round(area.ratio));
  if (wide < 3 * line) return;
  context.fillStyle = hatches.colours.places[place];
  context.globalAlpha = place === 'injected' ? 1 : 0.8;
  context.fillRect(x, area.top, line, area.height);
  context.fillRect(x + wide - line, area.top, line, area.height);
  if (place === 'injected') {
    context.fillRect(x, area.top, wide, line);
    context.fillRect(x, area.top + area.height - line, wide, line);
  }
  context.globalAlpha = 1;
}

/** Draws the loss strip at the lower edge: every gap as a tick, at least {@link MIN_TICK_PX} wide. */
export function paintStrip(context: CanvasRenderingContext2D, all: readonly Band[], area: Area, hatches: Hatches): void {
  if (all.length === 0) return;
  const height = STRIP_PX * area.ratio;
  const top = area.top + area.height + area.ratio;
  for (const { gap, left, width } of all) {
    const wide = Math.max(MIN_TICK_PX, width);
    const middle = left + width / 2;
    const x = area.left + Math.max(0, middle - wide / 2) * area.ratio;
    const unexplained = gap.stage.place === 'unexplained';
    context.fillStyle = unexplained ? hatches.colours.ink : hatches.colours.places[gap.stage.place];
    context.fillRect(x, top, wide * area.ratio, height);
  }
}

/** Draws the thin line where live memory ends and the archive begins. */
export function paintSeam(context: CanvasRenderingContext2D, x: number, area: Area, ink: string): void {
  if (x <= area.left + 1 || x >= area.left + area.width - 1) return;
  context.save();
  context.strokeStyle = ink;
  context.globalAlpha = 0.55;
  context.lineWidth = Math.max(1, Math.round(area.ratio));
  context.setLineDash([2 * area.ratio, 3 * area.ratio]);
  context.beginPath();
  const crisp = Math.round(x) + 0.5;
  context.moveTo(crisp, area.top);
  context.lineTo(crisp, area.top + area.height);
  context.stroke();
  context.restore();
}
