/**
 * The editor of the processing graph over the fake server: another visitor's changes, a lost connection, rights, keys and touch.
 */
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { SHOWN } from '../../dev/fake-graph.mjs';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { until } from './browser';
import { Pages } from './pages';

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer(); });
afterAll(() => fake.close());
beforeEach(() => { fake.graph.replace(SHOWN); });

const SLOW = 'lab/ecrh/slow';
const box = (page: Page, name: string): Locator => page.locator('.graph-box', { has: page.locator(`.graph-title:text-is("${name}")`) });
const every = (page: Page): Locator => page.locator('#graph').getByLabel('every', { exact: true });
const says = (page: Page, part: string, words: string): Promise<void> => until(`${part} to say "${words}"`, async () => (await page.locator(part).innerText()).includes(words));
const nodeOf = (name: string): unknown => fake.graph.nodes.find((node) => node['name'] === name);
/** The graph with another window of {@link SLOW}, as another visitor makes it. */
const otherwise = (window: string) => SHOWN.map((node) => (node['name'] === SLOW ? { ...node, every: window } : node));

/** Opens the editor and changes the window of a node. */
async function edited(window: string): Promise<Page> {
  const page = await pages.show(fake.url, '?span=10s&plot=test/hole:sine');
  await page.keyboard.press('p');
  await box(page, SLOW).click();
  await every(page).fill(window);
  await every(page).press('Tab');
  await says(page, '.graph-difference', `${SLOW} begins anew; 7 nodes continue`);
  return page;
}

describe('the editor of the graph', () => {
  test('shows what another visitor changed, and applies the draft on top of it', async () => {
    const page = await edited('200ms');
    // Between the last look at the graph and the request, which is the one that is refused.
    let applied = 0;
    await page.route('**/api/graph', (route) => {
      if (route.request().method() === 'PUT' && (applied += 1) === 1) fake.graph.replace(otherwise('50ms').slice(0, -1));
      return route.continue();
    });
    await page.getByRole('button', { name: 'Apply' }).click();
    await says(page, '.graph-note', 'Not applied: the graph was changed meanwhile');
    await says(page, '.graph-news', `${SLOW} begins anew; lab/ward/beats ends`);
    expect(await box(page, 'lab/ward/beats').count()).toBe(0);
    expect(await every(page).inputValue()).toBe('200ms');
    expect(await page.locator('.graph-clash').innerText()).toContain('every = "50ms"');
    await page.locator('.graph-clash').getByRole('button', { name: 'Keep mine' }).click();
    await page.getByRole('button', { name: 'Apply' }).click();
    await says(page, '.graph-note', `Applied: ${SLOW} begins anew.`);
    expect([nodeOf(SLOW), nodeOf('lab/ward/beats')]).toEqual([expect.objectContaining({ every: '200ms' }), undefined]);
    expect(pages.errors.splice(0)).toEqual([expect.stringContaining('412')]);
  });

  test('takes what the other visitor made of a node', async () => {
    const page = await edited('200ms');
    fake.graph.replace(otherwise('50ms'));
    await until('the mark', () => page.locator('.graph-clash').isVisible());
    await page.locator('.graph-clash').getByRole('button', { name: 'Take theirs' }).click();
    await until('their window', async () => (await every(page).inputValue()) === '50ms');
    expect(await page.getByRole('button', { name: 'Apply' }).isDisabled()).toBe(true);
  });

  test('keeps a draft while the server does not answer, and when the page is loaded again', async () => {
    const page = await edited('200ms');
    await page.route('**/api/graph**', (route) => route.abort());
    await says(page, '.graph-difference', 'No answer from the server');
    expect(await page.getByRole('button', { name: 'Apply' }).isDisabled()).toBe(true);
    await every(page).fill('400ms');
    await every(page).press('Tab');
    await page.unroute('**/api/graph**');
    await until('an answer', () => page.getByRole('button', { name: 'Apply' }).isEnabled());
    await page.reload();
    await page.locator('#open-graph').click();
    await says(page, '.graph-difference', `${SLOW} begins anew`);
    await box(page, SLOW).click();
    expect(await every(page).inputValue()).toBe('400ms');
    await page.getByRole('button', { name: 'Discard draft' }).click();
    await box(page, SLOW).click();
    expect(await every(page).inputValue()).toBe('100ms');
  });

  test('says why a visitor may only look', async () => {
    const closed = await startFakeServer({ users: true });
    const page = await pages.open(closed.url, '?span=10s&plot=test/hole:sine');
    await page.getByLabel('User').fill('ada');
    await page.getByLabel('Password').fill('analytical engine');
    await page.keyboard.press('Enter');
    await page.locator('.row-stream').first().waitFor();
    await page.locator('#open-graph').click();
    await box(page, SLOW).click();
    expect(await page.locator('.graph-origin').innerText()).toContain('Only to look at: user:ada may not derive (denied by line 3');
    expect(await every(page).getAttribute('readonly')).toBe('');
    for (const name of ['Apply', 'Remove', '+ Node']) expect(await page.getByRole('button', { name, exact: true }).isVisible()).toBe(false);
    await closed.close();
    pages.errors.splice(0);
  });

  test('has every problem of a check at its node', async () => {
    const page = await edited('1500us');
    await says(page, '.graph-side .graph-problems', '1500us is not a whole number of samples');
    await box(page, 'lab/both').click();
    await page.locator('#graph').getByLabel('name', { exact: true }).fill('lab/mirnov/band');
    await page.keyboard.press('Tab');
    await says(page, '.graph-side .graph-problems', 'this name is already computed');
    expect(await page.locator('.graph-box[data-mood=bad] .graph-title').allInnerTexts()).toEqual(expect.arrayContaining([SLOW, 'lab/mirnov/band']));
    pages.errors.splice(0);
  });

  test('is used by keys alone', async () => {
    const page = await pages.show(fake.url, '?span=10s&plot=test/hole:sine');
    await page.keyboard.press('p');
    await box(page, 'lab/ecrh/kilowatts').focus();
    await page.keyboard.press('ArrowRight');
    expect(await page.evaluate(() => document.activeElement?.querySelector('.graph-title')?.textContent)).toBe(SLOW);
    await page.keyboard.press('Enter');
    await every(page).focus();
    await every(page).fill('20ms');
    await page.keyboard.press('Enter');
    await says(page, '.graph-difference', `${SLOW} begins anew`);
    // Letters that are keys of the page are words here.
    await page.locator('#graph').getByLabel('name', { exact: true }).pressSequentially('/wapt');
    expect(await page.locator('#graph').isVisible()).toBe(true);
    await page.keyboard.press('Escape');
    expect(await page.locator('.graph-side').isVisible()).toBe(false);
    expect(await page.evaluate(() => document.activeElement?.querySelector('.graph-title')?.textContent)).toContain(SLOW);
    await page.keyboard.press('Escape');
    expect(await page.locator('#graph').isVisible()).toBe(false);
  });

  test.each([[390, 844], [820, 1180], [1440, 900], [1920, 1080]])('fits a page of %i × %i pixels, and is opened by touch', async (width, height) => {
    const page = await pages.show(fake.url, '?span=10s&plot=test/hole:sine', { viewport: { width, height }, hasTouch: true });
    await page.locator('#open-graph').tap();
    await box(page, 'lab/ecrh/kilowatts').tap();
    const beyond = await page.locator('#graph :is(button, input, select, p, h2, h3):not(.graph-box)').evaluateAll((all) => all
      .filter((each) => each instanceof HTMLElement && each.offsetWidth > 0 && (each.getBoundingClientRect().right > innerWidth || each.getBoundingClientRect().left < 0)).length);
    expect(beyond).toBe(0);
    await page.getByRole('button', { name: 'Close this node' }).tap();
    await page.locator('#graph button[title^="Close the graph"]').tap();
    expect(await page.locator('#graph').isVisible()).toBe(false);
  });
});
