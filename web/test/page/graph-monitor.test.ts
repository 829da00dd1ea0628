/**
 * The editor of the processing graph at a monitor server: nodes added by forms, a problem at its node, and the output plotted.
 */
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { drawn, until } from './browser';
import { cleanUp, startSineMonitor, type Monitor } from './bus';
import { Pages } from './pages';

const pages = new Pages();
let monitor: Monitor;

beforeAll(async () => {
  monitor = await startSineMonitor();
});
afterAll(cleanUp);

const box = (page: Page, name: string): Locator => page.locator('.graph-box', { has: page.locator(`.graph-title:text-is("${name}")`) });

/** Fills a field and leaves it. */
async function fill(page: Page, label: string, words: string): Promise<void> {
  const field = page.locator('#graph').getByLabel(label, { exact: true });
  await field.fill(words);
  await field.press('Tab');
}

test('a node is added, a bad one has its problem, and what is applied is plotted and taken back', async () => {
  const page = await pages.show(monitor.url, '?span=5s&plot=test/sine:ch0');
  await drawn(page);
  await page.keyboard.press('p');
  const add = page.getByRole('button', { name: '+ Node', exact: true });
  await add.click();
  await page.locator('#graph').getByLabel('kind', { exact: true }).selectOption('filter');
  await fill(page, 'name', 'lab/smooth');
  await fill(page, 'input', 'test/sine');
  await fill(page, 'response: Hz', '20');
  // Its output is planned before it runs.
  await until('the unit of the output', async () => (await box(page, 'lab/smooth').innerText()).includes('V'));
  await add.click();
  await fill(page, 'name', 'lab/uneven');
  await fill(page, 'input', 'test/sine');
  await fill(page, 'every', '1500us');
  const problems = page.locator('.graph-side .graph-problems');
  await until('the problem at its node', async () => (await problems.innerText()).startsWith('1500us is not a whole number of samples'));
  expect(await box(page, 'lab/uneven').innerText()).toContain('a problem');
  expect(await box(page, 'lab/smooth').innerText()).not.toContain('problem');
  const apply = page.getByRole('button', { name: 'Apply' });
  expect(await apply.isDisabled()).toBe(true);
  await page.locator('.graph-side').getByRole('button', { name: 'Remove', exact: true }).click();
  await until('a draft without problems', () => apply.isEnabled());
  expect(await page.locator('.graph-difference').innerText()).toBe('Applying: lab/smooth begins.');
  await apply.click();
  await until('the answer', async () => (await page.locator('.graph-note').innerText()) === 'Applied: lab/smooth begins.');
  await box(page, 'lab/smooth').click();
  const plot = page.getByRole('button', { name: 'Plot', exact: true });
  await until('the stream', () => plot.isVisible());
  await plot.click();
  await drawn(page);
  expect(await page.locator('.plot').nth(1).innerText()).toContain('smooth');
  await until('a node that runs', async () => (await box(page, 'lab/smooth').innerText()).includes('runs'));
  await page.getByRole('button', { name: 'Undo last change' }).click();
  await until('the end of the node', async () => (await page.locator('.graph-note').innerText()) === 'Taken back: lab/smooth ends.' && (await page.locator('.graph-box').count()) === 0);
  // The refused check.
  expect(pages.errors.splice(0).every((error) => error.includes('400'))).toBe(true);
});
