import { describe, expect, test } from 'vitest';
import { clock, day, full, pixelDigits, SECOND, tickLabel, timeTicks } from '../../src/model/time';
import { centre, DEFAULT_WINDOW, follow, MAX_SPAN, MIN_SPAN, pan, pause, withSpan, zoom, type TimeWindow } from '../../src/model/window';

const AT = 1_795_295_357_123_456_789n;

describe('times', () => {
  test('are written to the nanosecond', () => {
    expect(full(AT, 'utc')).toBe('2026-11-21 20:29:17.123456789 UTC'.replace('20:29:17', clock(AT, 'utc')));
    expect(clock(AT, 'utc', 9)).toMatch(/\.123456789$/);
    expect(clock(AT, 'utc', 3)).toMatch(/\.123$/);
    expect(clock(-1n, 'utc', 9)).toBe('23:59:59.999999999');
    expect(day(0n, 'utc')).toBe('1970-01-01');
  });

  test('get as many digits as pixels tell apart', () => {
    expect(pixelDigits(10n * SECOND, 1000)).toBe(2);
    expect(pixelDigits(1_000n, 1000)).toBe(9);
    expect(pixelDigits(86_400n * SECOND, 1000)).toBe(0);
  });

  test.each<[bigint, bigint, number]>([
    [10n * SECOND, 2n * SECOND, 0], [SECOND, 200_000_000n, 1], [60n * SECOND, 15n * SECOND, 0], [2_000n, 500n, 7], [7_200n * SECOND, 1800n * SECOND, 0],
    [30n * 86_400n * SECOND, 604_800n * SECOND, 0],
  ])('ticks of a window of %d ns are %d ns apart', (span, step, digits) => {
    const ticks = timeTicks(AT, AT + span, 5, 'utc');
    expect(ticks.stepNs).toBe(step);
    expect(ticks.digits).toBe(digits);
    for (const at of ticks.at) expect(at % step).toBe(0n);
    expect(ticks.at.length).toBeGreaterThan(1);
    expect(ticks.at.every((at) => at >= AT && at <= AT + span)).toBe(true);
  });

  test('labels of neighbouring ticks differ', () => {
    for (const span of [1_000n, 1_000_000n, SECOND, 10n * SECOND, 3600n * SECOND, 7n * 86_400n * SECOND]) {
      const ticks = timeTicks(AT, AT + span, 8, 'utc');
      const labels = ticks.at.map((at) => tickLabel(at, ticks, 'utc'));
      expect(new Set(labels).size).toBe(labels.length);
    }
  });
});

describe('the window', () => {
  const live = AT;
  const held: TimeWindow = { spanNs: 10n * SECOND, endNs: AT - 100n * SECOND };

  test('pauses where it is and follows again', () => {
    const paused = pause(DEFAULT_WINDOW, live);
    expect(paused.endNs).toBe(live);
    expect(follow(paused)).toEqual(DEFAULT_WINDOW);
  });

  test('zooms around the pointer', () => {
    const zoomed = zoom(held, 0.5, 0.25, live);
    expect(zoomed.spanNs).toBe(5n * SECOND);
    const at = (window: TimeWindow): bigint => (window.endNs ?? 0n) - (window.spanNs * 3n) / 4n;
    expect(at(zoomed)).toBe(at(held));
  });

  test('keeps its right edge at the live end while it follows', () => {
    expect(zoom(DEFAULT_WINDOW, 2, 0.1, live)).toEqual({ spanNs: 20n * SECOND, endNs: null });
  });

  test('pans into the past and follows again at the live edge', () => {
    expect(pan(DEFAULT_WINDOW, -SECOND, live).endNs).toBe(live - SECOND);
    expect(pan(held, 100n * SECOND, live).endNs).toBeNull();
    expect(pan(held, 99n * SECOND, live).endNs).toBe(live - SECOND);
  });

  test('never gets narrower or wider than allowed', () => {
    expect(withSpan(held, 1n).spanNs).toBe(MIN_SPAN);
    expect(zoom(held, 1e12, 0.5, live).spanNs).toBe(MAX_SPAN);
    expect(zoom(held, 1e-12, 0.5, live).spanNs).toBe(MIN_SPAN);
  });

  test('centres a gap and widens for one that would not fit', () => {
    const shown = centre(held, AT - 500n * SECOND, AT - 499n * SECOND, live);
    expect(shown).toEqual({ spanNs: 10n * SECOND, endNs: AT - 494_500_000_000n });
    expect(centre(held, AT - 500n * SECOND, AT - 400n * SECOND, live).spanNs).toBe(200n * SECOND);
    expect(centre(held, AT - SECOND, AT, live).endNs).toBe(AT);
  });
});
