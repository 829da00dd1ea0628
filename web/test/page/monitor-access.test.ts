/**
 * The page of an encrypted monitor server with users and rules: an operator signs in, acts and signs out; what another user
 * may not see is nowhere on the page.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connection, until } from './browser';
import { cleanUp, newFolder, publish, SINE, startMonitor } from './bus';
import { binary, privateBus } from './command';
import { row } from './list';
import { Pages } from './pages';

const PASSWORD = 'correct horse battery';
const RULES = 'deny user:bob read test/sine\nallow signed-in read **\nallow role:operator steer **\n';

describe('an encrypted monitor server with users', () => {
  const pages = new Pages();
  let url: string;
  let folder: string;

  beforeAll(async () => {
    const bus = await privateBus();
    folder = await newFolder();
    for (const [name, role] of [['ada', 'operator'], ['bob', 'viewer']] as const) user('add', name, '--role', role);
    writeFileSync(join(folder, 'access'), RULES, { mode: 0o600 });
    process.env['XDG_STATE_HOME'] = folder;
    const monitor = await startMonitor(bus, ['test/*'], ['--access', folder, '--tls', 'auto']);
    url = monitor.url.replace('http:', 'https:');
    publish(bus, SINE);
    publish(bus, ['test/chirp', '--wave', 'chirp', '--rate', '1k']);
  });
  afterAll(cleanUp);

  /** Runs `tallycast access user` with the password on standard input. */
  function user(...words: readonly string[]): void {
    const password = words[0] === 'add' ? ['--password-stdin'] : [];
    execFileSync(binary(), ['access', '--access', folder, 'user', ...words, ...password], { input: `${PASSWORD}\n` });
  }

  async function signedIn(name: string): Promise<Page> {
    const page = await pages.open(url, '', { ignoreHTTPSErrors: true });
    await page.getByLabel('User').fill(name);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.keyboard.press('Enter');
    await until('the name', async () => (await page.locator('#visitor').innerText()).startsWith(name));
    await until('a connection', async () => (await connection(page)) === 'open');
    return page;
  }

  test('lets an operator join streams, and signs out', async () => {
    const page = await signedIn('ada');
    await until('the stream', async () => (await row(page, 'sine').count()) === 1);
    const cookies = await page.context().cookies();
    expect(cookies.map(({ name, secure, httpOnly, sameSite }) => [name.startsWith('__Host-'), secure, httpOnly, sameSite])).toEqual([[true, true, true, 'Strict']]);
    const form = page.locator('#sources details', { hasText: 'Join streams' });
    await form.locator('summary').click();
    await form.locator('input').fill('lab/*');
    await form.locator('button[type=submit]').click();
    await until('the pattern', async () => (await form.locator('.held code').allInnerTexts()).includes('lab/*'));
    expect(await form.locator('.held button').first().isVisible()).toBe(true);
    await page.locator('#visitor').click();
    await page.locator('#sign-in').waitFor();
    expect(await page.context().cookies()).toEqual([]);
  });

  test('hides from a viewer what it may not read, and disables what it may not do', async () => {
    const page = await signedIn('bob');
    await until('the stream', async () => (await row(page, 'chirp').count()) === 1);
    expect(await row(page, 'sine').count()).toBe(0);
    const form = page.locator('#sources details', { hasText: 'Join streams' });
    expect(await form.getAttribute('title')).toContain('user:bob may not steer');
    await form.locator('summary').click();
    await form.locator('.held code').first().waitFor();
    expect(await form.locator('.held button:visible').count()).toBe(0);
    // The user is removed: the page shows the form to sign in, and asks for nothing that is refused, however late it learns who it is.
    await page.route('**/api/session', async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      await route.continue();
    });
    user('remove', 'bob');
    await page.locator('#sign-in').waitFor();
    expect(await connection(page)).not.toBe('open');
  });
});
