/**
 * Limits as dashed lines over the width of a plot: warnings with short dashes, alarms with long ones.
 */
import type { Limit } from '../model/limits';
import type { Range } from '../model/scale';
import type { Area } from './area';

/** Colours of limits. */
export type LimitColours = Readonly<Record<Limit['kind'], string>>;

const DASHES: Readonly<Record<Limit['kind'], readonly number[]>> = { warning: [3, 4], alarm: [9, 4] };

/** Draws the limits that lie in the range of their axis. */
export function paintLimits(context: CanvasRenderingContext2D, limits: readonly Limit[], range: Range, area: Area, colours: LimitColours): void {
  for (const { value, kind } of limits) {
    if (!(value >= range.low && value <= range.high)) continue;
    // On whole pixels, where a thin line keeps its colour.
    const exact = area.top + area.height * (1 - (value - range.low) / (range.high - range.low));
    const y = Math.round(exact - area.ratio / 2) + area.ratio / 2;
    context.save();
    context.strokeStyle = colours[kind];
    context.lineWidth = area.ratio;
    context.setLineDash(DASHES[kind].map((length) => length * area.ratio));
    context.beginPath();
    context.moveTo(area.left, y);
    context.lineTo(area.left + area.width, y);
    context.stroke();
    context.restore();
  }
}
