/**
 * The pages of one test file: one browser for all, a context of its own for each. What a test opened is closed
 * behind it, and a test whose page met an error has failed.
 */
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { launch, listed, open } from './browser';

/** Opens pages for the tests of the file that makes it, once, at its top. */
export class Pages {
  #browser: Browser | null = null;
  /** What went wrong on the pages of this test; one that expects something takes it out. */
  readonly errors: string[] = [];

  constructor() {
    beforeAll(async () => { this.#browser = await launch(); });
    afterAll(() => this.#browser?.close());
    afterEach(async () => {
      await Promise.all((this.#browser?.contexts() ?? []).map((context) => context.close()));
      expect(this.errors.splice(0)).toEqual([]);
    });
  }

  /** Opens the page with this query. */
  async open(url: string, query = '', options: BrowserContextOptions = {}): Promise<Page> {
    if (this.#browser === null) throw new Error('only tests open pages');
    return open(this.#browser, `${url}/${query}`, this.errors, options);
  }

  /** Opens the page and waits for its list of streams. */
  async show(url: string, query = '', options: BrowserContextOptions = {}): Promise<Page> {
    const page = await this.open(url, query, options);
    await listed(page);
    return page;
  }
}
