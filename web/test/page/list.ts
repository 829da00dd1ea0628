/**
 * The list of streams as a person uses it.
 */
import type { Locator, Page } from 'playwright-core';
import { until } from './browser';

/** The row of a stream. */
export const row = (page: Page, name: string): Locator => page.locator('.row-stream', { has: page.locator(`.row-label:text-is("${name}")`) });

/** Types a name into the search box and presses a key. */
export async function choose(page: Page, name: string, key: string): Promise<void> {
  await page.keyboard.press('/');
  await page.keyboard.type(name);
  await until('the row alone', async () => (await page.locator('.row-stream').count()) === 1);
  await page.keyboard.press(key);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
}
