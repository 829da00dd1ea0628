/**
 * Shared views in two browsers over the fake server: one presents, one follows, one may only watch; and the panel that lists,
 * saves and deletes them.
 */
import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { plotOf, readLayout, type Layout } from '../../src/model/layout';
import { fieldsOf } from '../../src/model/shared-fields';
import { connection, drawn, listed, paused, query, until } from './browser';
import { talkOf } from './overheard';
import { Pages } from './pages';

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer(); });
afterAll(() => fake.close());

const LAYOUT: Layout = { ...readLayout('span=10s'), plots: ['hole:sine', 'chirp:a'].map((name) => { const [stream = '', channel = ''] = name.split(':'); return plotOf([{ stream: `test/${stream}`, channel }]); }) };

beforeEach(() => {
  fake.views.documents.clear();
  fake.views.put('rod', { ...fieldsOf({ layout: LAYOUT, ids: ['p1', 'p2'] }), title: 'Heated rod' }, 'anna');
});

/** A browser of this user. */
function of(user: string, role = 'writer'): BrowserContextOptions {
  const cookie = (name: string, value: string) => ({ name, value, domain: '127.0.0.1', path: '/', expires: -1, httpOnly: false, secure: false, sameSite: 'Lax' as const });
  return { storageState: { cookies: [cookie('fake-user', user), cookie('fake-role', role)], origins: [] } };
}

const chip = (page: Page): Promise<string> => page.locator('#shared-chip').innerText();
const says = (page: Page, words: string): Promise<void> => until(`the top bar to say "${words}"`, async () => (await page.locator('#shared').isVisible()) && (await chip(page)).includes(words));
const spanOf = (page: Page): Promise<string> => page.locator('#span').inputValue();
const TEN_S = '10000000000';
const FIVE_S = '5000000000';

/** Opens the view for a user, and waits until its plots are drawn. */
async function opened(user: string, role = 'writer'): Promise<Page> {
  const page = await pages.show(fake.url, '?view=rod', of(user, role));
  await until('both plots', async () => (await page.locator('.plot').count()) === 2);
  await drawn(page);
  return page;
}

async function presents(page: Page): Promise<void> {
  await until('a button to present', () => page.getByRole('button', { name: 'Present', exact: true }).isVisible());
  await page.getByRole('button', { name: 'Present', exact: true }).click();
  await says(page, 'you present');
}

describe('a view that is followed', () => {
  test('shows what the presenter does, until one moves by oneself and rejoins', async () => {
    const { refused } = fake.views;
    const [anna, ben] = [await opened('anna'), await opened('ben')];
    await presents(anna);
    await says(ben, 'anna presents · 2 watch');
    await anna.locator('#span').selectOption(FIVE_S);
    await until('the span of the presenter', async () => (await spanOf(ben)) === FIVE_S);
    await anna.keyboard.press('c');
    await until('the cursors of the presenter', async () => (await ben.locator('#measure').isVisible()) && await paused(ben));
    await ben.locator('.plot').first().evaluate((plot) => plot.setAttribute('data-seen', ''));
    await anna.locator('.plot').nth(1).focus();
    await anna.keyboard.press('x');
    await until('one plot', async () => (await ben.locator('.plot').count()) === 1);
    expect(query(ben).get('view')).toBe('rod');
    // A plot that stays is not made anew.
    expect([await ben.locator('.plot-title').innerText(), await ben.locator('.plot[data-seen]').count()]).toEqual(['test/hole', 1]);

    await ben.keyboard.press('f');
    await says(ben, 'You left Heated rod · anna presents');
    await until('word that the other has left', async () => !(await chip(anna)).includes('watch'));
    expect(await paused(anna)).toBe(true);
    await until('an address of its own', () => query(ben).get('view') === null && query(ben).getAll('plot').length === 1);
    await anna.locator('#span').selectOption(TEN_S);
    await ben.getByRole('button', { name: 'Rejoin' }).click();
    await says(ben, 'anna presents · 2 watch');
    await until('the span of the presenter', async () => (await spanOf(ben)) === TEN_S);
    expect([await paused(ben), fake.views.refused]).toEqual([true, refused]);
  });

  test('without a presenter is changed by all who may write', async () => {
    const [anna, ben] = [await opened('anna'), await opened('ben')];
    await says(anna, 'all may edit · 2 watch');
    await ben.locator('#span').selectOption(FIVE_S);
    await until('the span on the other page', async () => (await spanOf(anna)) === FIVE_S);
    await anna.keyboard.press('/');
    await anna.keyboard.type('carrier');
    await anna.keyboard.press('Enter');
    await until('a third plot', async () => (await ben.locator('.plot').count()) === 3);
    await until('a document with three', () => fake.views.documents.get('rod')?.fields['order'].length === 3);
    expect(fake.views.documents.get('rod')?.fields['order'].slice(0, 2)).toEqual(['p1', 'p2']);
  });

  test('is left by one who may not change it, and the server is asked for nothing', async () => {
    const [anna, reader] = [await opened('anna'), await opened('carl', 'reader')];
    await says(reader, 'read-only · 2 watch');
    const [before, { refused }] = [fake.views.documents.get('rod')?.revision, fake.views];
    await reader.keyboard.press('Space');
    await says(reader, 'You left Heated rod · this visitor may read, not change');
    expect([fake.views.documents.get('rod')?.revision, fake.views.refused, await paused(anna)]).toEqual([before, refused, false]);
  });

  test('through a read-only link cannot be written, by no message either', async () => {
    const anna = await opened('anna');
    await anna.keyboard.press('v');
    await anna.getByRole('button', { name: 'Copy read-only link' }).click();
    const link = fake.views.documents.get('rod')?.id ?? '';
    await until('the link', async () => (await anna.locator('.view-link').isVisible()) || (await anna.locator('#toast').innerText()).startsWith('Link copied'));
    const watcher = await pages.show(fake.url, `?watch=${link}`, of('dora'));
    await says(watcher, 'read-only · 2 watch');
    await until('who watches', async () => (await anna.locator('.view-watchers').innerText()).includes('dora'));
    expect(await anna.locator('.view-watchers li', { hasText: 'dora' }).getAttribute('data-role')).toBe('watches only');
    const answer = await watcher.evaluate((id) => new Promise<string>((resolve) => {
      const socket = new WebSocket(`ws://${location.host}/api/live`);
      socket.onopen = () => {
        socket.send(JSON.stringify({ type: 'follow', read_only_id: id }));
        socket.send(JSON.stringify({ type: 'edit', fields: { title: 'Mine' } }));
      };
      socket.onmessage = ({ data }) => { if (typeof data === 'string' && data.includes('shared_view_refused')) resolve(data); };
    }), link);
    expect(answer).toContain('the link is read-only');
    expect(fake.views.documents.get('rod')?.fields['title']).toBe('Heated rod');
    await watcher.locator('#span').selectOption(FIVE_S);
    await says(watcher, 'You left Heated rod · the link is read-only');
  });

  test('is followed again after the connection broke, and presented again', async () => {
    const [anna, ben] = [await opened('anna'), await opened('ben')];
    await presents(anna);
    await says(ben, 'anna presents');
    fake.cut();
    for (const page of [anna, ben]) await until('the connection again', async () => (await connection(page)) === 'open');
    await says(anna, 'you present · 2 watch');
    await anna.locator('#span').selectOption(FIVE_S);
    await until('the span of the presenter', async () => (await spanOf(ben)) === FIVE_S);
    expect(anna.url()).toContain('view=rod');
  });

  test('that is refused an edit has the server\'s values again', async () => {
    const anna = await opened('anna');
    await says(anna, 'all may edit');
    // Somebody presents of whom this page has not heard yet.
    fake.views.presenters.set('rod', { user: 'eve', mayWrite: true, say: () => undefined });
    await anna.locator('#span').selectOption(FIVE_S);
    await until('the reason', async () => (await anna.locator('#toast').innerText()) === 'eve presents');
    await until('the span of before', async () => (await spanOf(anna)) === TEN_S);
    fake.views.presenters.clear();
  });

  test('is given another title by those who may write, and others are told why not', async () => {
    const [anna, reader] = [await opened('anna'), await opened('carl', 'reader')];
    await says(anna, 'all may edit · 2 watch');
    for (const page of [anna, reader]) await page.keyboard.press('v');
    const title = anna.getByLabel('Title', { exact: true });
    await title.fill('  Cold rod ');
    await title.press('Enter');
    await says(reader, 'Cold rod');
    await until('its entry in the list', async () => (await anna.locator('.view-list').innerText()).includes('Cold rod'));
    expect([fake.views.documents.get('rod')?.fields['title'], await title.inputValue()]).toEqual(['Cold rod', 'Cold rod']);
    await title.fill('not this');
    await title.press('Escape');
    expect([await title.inputValue(), await anna.locator('#views').isVisible()]).toEqual(['Cold rod', true]);
    await reader.getByLabel('Title', { exact: true }).focus();
    await reader.keyboard.type('Mine');
    expect(await reader.locator('.view-heading .view-note').innerText()).toBe('The title cannot be changed here: this visitor may read, not change.');
    expect([await reader.getByLabel('Title', { exact: true }).inputValue(), fake.views.documents.get('rod')?.fields['title']]).toEqual(['Cold rod', 'Cold rod']);
  });

  test('that is deleted leaves its plots on the page', async () => {
    const [anna, ben] = [await opened('anna'), await opened('ben')];
    await anna.keyboard.press('v');
    await anna.getByRole('button', { name: 'Delete rod', exact: true }).click();
    expect(await anna.locator('.view-list').innerText()).toContain('Delete Heated rod? 2 pages follow it.');
    await anna.getByRole('button', { name: 'Delete rod now' }).click();
    await says(ben, 'Heated rod was deleted');
    expect(await ben.locator('.plot').count()).toBe(2);
    await ben.getByRole('button', { name: 'Dismiss' }).click();
    expect(await ben.locator('#shared').isVisible()).toBe(false);
  });

  test('asks for few different numbers of columns', async () => {
    const page = await opened('anna');
    const widths = new Set<number>();
    page.on('websocket', (socket) => socket.on('framesent', ({ payload }) => {
      const width = /"type":"view".*"width_px":(\d+)/.exec(String(payload))?.[1];
      if (width !== undefined) widths.add(Number(width));
    }));
    fake.cut();
    await until('requests', () => widths.size > 0);
    await until('an answer', () => talkOf(page).answered);
    expect([...widths].every((width) => [320, 480, 640, 960, 1280, 1920, 2560].includes(width))).toBe(true);
  });
});

describe('the panel of views', () => {
  test('saves what is shown, offers to replace what has the name, and opens it elsewhere', async () => {
    const page = await pages.show(fake.url, '?span=5s&plot=test/chirp:a', of('anna'));
    await page.keyboard.press('v');
    const name = page.getByLabel('Save what is shown as');
    await name.fill('Prüfstand 3');
    await name.press('Enter');
    await until('the entry', async () => (await page.locator('.view-list').innerText()).includes('Prüfstand 3'));
    expect(await page.locator('.views-body > .view-note').innerText()).toBe('Saved as Prufstand-3.');
    await name.fill('rod');
    await name.press('Enter');
    await until('the question', () => page.getByRole('button', { name: 'Replace rod' }).isVisible());
    expect(await page.locator('.view-save .view-note').innerText()).toBe('A view named rod exists, last changed by anna.');
    // The browser's console has the refusal, too.
    await until('the console', () => pages.errors.length > 0);
    expect(pages.errors.splice(0).join()).toContain('412');
    await page.getByRole('button', { name: 'Replace rod' }).click();
    await until('another view', () => fake.views.documents.get('rod')?.fields['order'].length === 1);
    await until('the answer', async () => (await name.inputValue()) === '');
    await name.fill('плазма');
    await name.press('Enter');
    await until('why not', async () => (await page.locator('.view-save .view-note').innerText()).startsWith('A name needs letters'));
    await page.keyboard.press('Escape');
    expect(await page.locator('#views').isVisible()).toBe(false);

    const other = await pages.show(fake.url, '?view=Prufstand-3', of('ben'));
    await says(other, 'Prüfstand 3');
    await until('its span', async () => (await spanOf(other)) === FIVE_S && (await other.locator('.plot').count()) === 1);
  });

  test('opens a view to follow, and a copy that is the page\'s own', async () => {
    const page = await pages.show(fake.url, '?span=5s&plot=test/carrier:f', of('anna'));
    await page.locator('#open-views').click();
    await page.getByRole('button', { name: 'Open a copy of rod' }).click();
    await until('two plots', async () => (await page.locator('.plot').count()) === 2);
    expect([await page.locator('#shared').isVisible(), await page.locator('#views').isVisible()]).toEqual([false, false]);
    await until('an address of its own', () => query(page).getAll('plot').length === 2);
    await page.keyboard.press('x');
    expect(fake.views.documents.get('rod')?.fields['order']).toEqual(['p1', 'p2']);
    await page.keyboard.press('v');
    await page.getByRole('button', { name: 'Follow rod' }).click();
    await says(page, 'Heated rod');
    await until('two plots', async () => (await page.locator('.plot').count()) === 2);
    // Enough room for its own copy: what is shown stays, the view goes on without it.
    await page.keyboard.press('v');
    await page.getByRole('button', { name: 'Make it my own' }).click();
    await until('nothing followed', async () => !(await page.locator('#shared').isVisible()));
    expect(await page.locator('.plot').count()).toBe(2);
  });

  test('a link to a copy goes its own way', async () => {
    const page = await pages.show(fake.url, '?fork=rod', of('anna'));
    await until('two plots', async () => (await page.locator('.plot').count()) === 2);
    await until('an address of its own', () => query(page).get('fork') === null && query(page).getAll('plot').length === 2);
  });

  test('lets a reader open and not save or delete', async () => {
    const signed = await startFakeServer({ users: true });
    signed.views.put('rod', fieldsOf({ layout: LAYOUT, ids: ['p1', 'p2'] }));
    const page = await pages.open(signed.url, '?view=rod');
    await page.getByLabel('User').fill('ada');
    await page.getByLabel('Password').fill('analytical engine');
    await page.keyboard.press('Enter');
    await listed(page);
    await says(page, 'rod');
    await page.keyboard.press('v');
    await until('the list', async () => (await page.locator('.view-list > li').count()) === 1);
    expect(await page.locator('.view-save .view-note').innerText()).toContain('user:ada may not derive');
    expect([await page.getByLabel('Save a copy as').isDisabled(), await page.getByRole('button', { name: 'Delete rod' }).count()]).toEqual([true, 0]);
    await page.close();
    await signed.close();
  });

  test('a name that no view has is said, with the way to those there are', async () => {
    const page = await pages.show(fake.url, '?view=pump', of('anna'));
    await says(page, 'No access to pump · There is no such view');
    expect(await page.locator('#notice').innerText()).toContain('Press v for the views of this monitor');
    expect(query(page).get('view')).toBe('pump');
    fake.views.put('pump', fieldsOf({ layout: LAYOUT, ids: ['p1', 'p2'] }));
    await page.getByRole('button', { name: 'Rejoin' }).click();
    await says(page, 'pump');
    await until('its plots', async () => (await page.locator('.plot').count()) === 2);
  });

  test('is worked by finger', async () => {
    const page = await pages.show(fake.url, '?view=rod', { ...of('anna'), viewport: { width: 390, height: 844 }, hasTouch: true });
    await says(page, 'Heated rod');
    await page.locator('#shared-chip').tap();
    await page.getByRole('button', { name: 'Present', exact: true }).last().tap();
    await says(page, 'you present');
    const title = page.getByLabel('Title', { exact: true });
    await title.tap();
    await title.fill('By finger');
    await page.locator('#views h2').tap();
    await until('the title', () => fake.views.documents.get('rod')?.fields['title'] === 'By finger');
    const sizes = await page.locator('#views button:visible, #views .view-title').evaluateAll((buttons) => buttons.map((button) => button.getBoundingClientRect().height));
    expect(sizes.every((height) => height >= 44)).toBe(true);
    await page.getByLabel('Close the views (v)').tap();
    expect(await page.locator('#views').isVisible()).toBe(false);
  });
});
