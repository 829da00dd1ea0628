/**
 * What the tests ask a monitor server themselves, to compare with what the page shows.
 */
import { fields, list, parseJson } from '../../src/wire/json';
import { readGapDetail, readStreams, type GapDetail, type Stream } from '../../src/wire/messages';
import { until } from './browser';

/** Asks a monitor server. */
export async function ask(url: string, path: string, query: Readonly<Record<string, string>> = {}): Promise<unknown> {
  const response = await fetch(`${url}${path}?${new URLSearchParams(query)}`);
  const body = await response.text();
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${body}`);
  return parseJson(body);
}

/** Returns what is missing of a stream between two times. */
export async function gapsOf(url: string, stream: string, from?: bigint, to?: bigint): Promise<readonly GapDetail[]> {
  const window = from === undefined || to === undefined ? {} : { from: `${from}`, to: `${to}` };
  const gaps = await ask(url, '/api/gaps', { stream, limit: '1000', ...window });
  return list({ gaps }, 'gaps').map(readGapDetail);
}

/** Returns a stream of the catalogue, once it fulfils a condition. */
export async function streamOf(url: string, name: string, wanted: (stream: Stream) => boolean = () => true): Promise<Stream> {
  let found: Stream | undefined;
  await until(`${name} in the catalogue`, async () => {
    found = readStreams(fields(await ask(url, '/api/streams'))).find((stream) => stream.name === name && wanted(stream));
    return found !== undefined;
  });
  if (found === undefined) throw new Error('found a moment ago');
  return found;
}

/** Returns a number of `/metrics`, summed over its labels. */
export async function metric(url: string, name: string): Promise<number> {
  const answer = await (await fetch(`${url}/metrics`)).text();
  const values = answer.split('\n').filter((line) => line.startsWith(`${name}{`)).map((line) => Number(line.slice(line.lastIndexOf(' '))));
  if (values.length === 0) throw new Error(`no metric ${name} in\n${answer}`);
  return values.reduce((all, each) => all + each, 0);
}
