/**
 * What pages of others can do to an encrypted monitor server through the browser of somebody who is signed in there: nothing.
 *
 * A page of another origin tries to read, to change, and to open a socket; a name that leads here too asks for the page; a
 * session is planted; one tab signs out while another is open.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connection, launch, until } from './browser';
import { cleanUp, newFolder, publish, SINE, startMonitor } from './bus';
import { binary, privateBus } from './command';

const PASSWORD = 'correct horse battery';
/** A site of somebody else, and a name that leads to this host: both are names of loopback for the browser. */
const EVIL = 'evil.example';

describe('pages of others', () => {
  let browser: Browser;
  let url: string;
  let port: string;
  let evil: Server;
  let evilPort: number;

  beforeAll(async () => {
    const [bus, folder] = [await privateBus(), await newFolder()];
    const add = ['access', '--access', folder, 'user', 'add', 'ada', '--role', 'operator', '--password-stdin'];
    execFileSync(binary(), add, { input: `${PASSWORD}\n` });
    writeFileSync(join(folder, 'access'), 'allow role:operator operator **\n', { mode: 0o600 });
    process.env['XDG_STATE_HOME'] = folder;
    const monitor = await startMonitor(bus, ['test/*'], ['--access', folder, '--tls', 'auto']);
    url = monitor.url.replace('http:', 'https:');
    port = new URL(url).port;
    publish(bus, SINE);
    evil = createServer((_, response) => {
      response.writeHead(200, { 'content-type': 'text/html' });
      response.end('<!doctype html><title>prizes</title>');
    });
    await new Promise<void>((resolve) => { evil.listen(0, '127.0.0.1', resolve); });
    evilPort = (evil.address() as AddressInfo).port;
    browser = await launch([`--host-resolver-rules=MAP ${EVIL} 127.0.0.1`]);
  });
  afterAll(async () => {
    await browser.close();
    evil.close();
    await cleanUp();
  });

  const visitor = (): Promise<BrowserContext> => browser.newContext({ ignoreHTTPSErrors: true });

  async function signIn(context: BrowserContext): Promise<Page> {
    const page = await context.newPage();
    await page.goto(url);
    await page.getByLabel('User').fill('ada');
    await page.getByLabel('Password').fill(PASSWORD);
    await page.keyboard.press('Enter');
    await until('the name', async () => (await page.locator('#visitor').innerText()).startsWith('ada'));
    await until('a connection', async () => (await connection(page)) === 'open');
    return page;
  }

  const patterns = (page: Page): Promise<string> => page.evaluate(async () => (await fetch('/api/patterns')).text());

  test.each([['another port of this host', '127.0.0.1'], ['another site', EVIL]])('of %s neither read nor change anything, nor open a socket', async (_, host) => {
    const context = await visitor();
    const page = await signIn(context);
    const before = await patterns(page);
    const other = await context.newPage();
    await other.goto(`http://${host}:${evilPort}/`);
    const tried = await other.evaluate(async (monitor) => {
      const told = async (work: Promise<unknown>): Promise<string> => work.then(() => 'done', () => 'failed');
      const join = (type: string): RequestInit => ({ method: 'POST', credentials: 'include', mode: 'no-cors', headers: { 'content-type': type }, body: '{"pattern":"evil/**"}' });
      const opened = new Promise((resolve, reject) => {
        const socket = new WebSocket(`${monitor.replace('https:', 'wss:')}/api/live`);
        socket.onopen = resolve;
        socket.onerror = reject;
      });
      return {
        read: await told(fetch(`${monitor}/api/streams`, { credentials: 'include' }).then((answer) => answer.text())),
        json: await told(fetch(`${monitor}/api/join`, { ...join('application/json'), mode: 'cors' })),
        // A request without a preflight is sent; its answer is opaque.
        plain: await told(fetch(`${monitor}/api/join`, join('text/plain'))),
        socket: await told(opened),
      };
    }, url);
    expect(tried).toMatchObject({ read: 'failed', json: 'failed', socket: 'failed' });
    await other.setContent(`<form method="post" enctype="text/plain" action="${url}/api/join"><input name='{"pattern":"evil/**","a":"' value='"}'></form>`);
    await Promise.all([other.waitForURL(`${url}/**`), other.evaluate(() => document.forms[0]?.submit())]);
    expect(await other.locator('body').innerText()).toContain('error');
    expect(await patterns(page)).toBe(before);
    await context.close();
  });

  test('under a name that leads here too get no page, and no stream', async () => {
    const context = await visitor();
    await signIn(context);
    const rebound = await context.newPage();
    const answer = await rebound.goto(`https://${EVIL}:${port}/`);
    expect(answer?.status()).toBe(403);
    expect(await rebound.locator('#top-bar').count()).toBe(0);
    const status = await rebound.evaluate(async () => (await fetch('/api/streams')).status);
    expect(status).toBe(403);
    await context.close();
  });

  test('that planted a session gain nothing from the sign-in, and no script reads it', async () => {
    const context = await visitor();
    const name = `__Host-tallycast-${port}`;
    const planted = 'f'.repeat(64);
    await context.addCookies([{ name, value: planted, url, secure: true, httpOnly: true, sameSite: 'Strict' }]);
    const page = await signIn(context);
    const [cookie, ...more] = await context.cookies();
    expect([cookie?.name, more.length, cookie?.value === planted]).toEqual([name, 0, false]);
    expect(await page.evaluate(() => document.cookie)).toBe('');
    const thief = await visitor();
    await thief.addCookies([{ name, value: planted, url, secure: true, httpOnly: true, sameSite: 'Strict' }]);
    const stolen = await thief.newPage();
    await stolen.goto(url);
    await stolen.locator('#sign-in').waitFor();
    await Promise.all([context.close(), thief.close()]);
  });

  test('that are open elsewhere are closed when their user signs out, and show nothing more', async () => {
    const context = await visitor();
    const [page, other] = [await signIn(context), await context.newPage()];
    await other.goto(url);
    await until('the stream', async () => (await other.locator('.row-stream').count()) > 0);
    await page.locator('#visitor').click();
    await page.locator('#sign-in').waitFor();
    await other.locator('#sign-in').waitFor();
    await until('the reason', async () => (await other.locator('#sign-in-note').innerText()) === 'This page was closed: the session has ended');
    expect(await other.locator('.row-stream').count()).toBe(0);
    expect(await connection(other)).not.toBe('open');
    await context.close();
  });
});
