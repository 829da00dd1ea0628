import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const css = readFileSync(fileURLToPath(new URL('../../src/style/tokens.css', import.meta.url)), 'utf8');

/** The colours of the block that begins with `selector`. */
function tokens(selector: string): ReadonlyMap<string, string> {
  const start = css.indexOf(selector);
  const block = css.slice(css.indexOf('{', start), css.indexOf('}', start));
  return new Map([...block.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6});/g)].map(([, name = '', value = '']) => [name, value]));
}

/** Relative luminance. Source: WCAG 2.2. */
function luminance(colour: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [dark = 0, light = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

const GROUNDS = ['ground', 'panel', 'plot', 'raised', 'hover'];

describe.each([['dark', ':root {'], ['light', ":root[data-theme='light']"]])('the %s theme', (_, selector) => {
  const colours = tokens(selector);
  const texts = [...colours.keys()].filter((name) => /^(ink|accent|good|warn|bad|trace-|stage-)/.test(name));

  test.each(texts)('%s can be read on every ground', (text) => {
    for (const ground of GROUNDS) {
      expect(contrast(colours.get(text) ?? '', colours.get(ground) ?? ''), `on ${ground}`).toBeGreaterThanOrEqual(4.5);
    }
  });

  test('names the same colours as the other', () => {
    expect(texts).toHaveLength(3 + 1 + 3 + 8 + 9);
    expect(contrast(colours.get('on-accent') ?? '', colours.get('accent') ?? '')).toBeGreaterThanOrEqual(4.5);
  });
});
