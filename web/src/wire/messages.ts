/**
 * Messages between the page and the server in JSON: the catalogue, accounts, gaps, notes, requests.
 *
 * The layout's source of truth is `docs/protocol/page.md`. Readers here take parsed JSON and return plain
 * typed values; they never throw, see `json.ts`.
 */
import { readAlarmNews, type AlarmNews } from '../model/alarms';
import { counts, fields, flag, isFields, list, nanoseconds, number, oneOf, text, type Fields } from './json';
import { readSharedMessage, type SharedMessage } from './shared-view';

/** The version of the protocol this page speaks. */
export const PAGE_PROTOCOL = 1;

/** State of a stream. */
export type Health = 'ok' | 'losing' | 'stale' | 'ended';
const HEALTH: readonly Health[] = ['ok', 'losing', 'stale', 'ended'];

/** The state of an account (`docs/protocol/account.md`, rule 13). */
export type AccountState = 'open' | 'closed' | 'cut' | 'unconfirmed';
const ACCOUNT_STATES: readonly AccountState[] = ['open', 'closed', 'cut', 'unconfirmed'];

/** One channel of a stream. */
export interface Channel {
  readonly name: string;
  readonly unit: string;
  readonly elements: number;
  /** Extents of one sample, row-major; empty of a single value. */
  readonly shape: readonly number[];
}

/** Smallest and largest value of one second, or null if there was none. */
export type SparkBucket = readonly [number, number] | null;

/** One stream of the catalogue. */
export interface Stream {
  readonly name: string;
  readonly epoch: string;
  readonly state: AccountState;
  readonly dtype: string;
  /** Samples per second as the schema states it; 0 when unknown. */
  readonly nominalRate: number;
  readonly elementsPerSample: number;
  readonly station: string;
  /** Of a relayed stream: the stations that sent it on the hops before, from hop 0 on; `station` is the last relay. */
  readonly stations: readonly string[];
  /** Protection of its datagrams: `group`, `clear`, or empty when unknown. */
  readonly level: string;
  readonly labels: readonly (readonly [string, string])[];
  readonly derived: boolean;
  readonly channels: readonly Channel[];
  readonly firstIndex: number;
  readonly nextIndex: number;
  readonly ageNs: number;
  readonly samplesPerSecond: number;
  readonly lostElements: number;
  readonly lostLastHour: number;
  readonly unsettledElements: number;
  /** Datagrams in its name that were not authentic: in no account. */
  readonly unauthenticDatagrams: number;
  readonly health: Health;
  /** Null when this message left the sparkline out. */
  readonly spark: readonly SparkBucket[] | null;
}

/** Reads one stream of the catalogue, or null when it has no name. */
export function readStream(value: unknown): Stream | null {
  const from = fields(value);
  const name = text(from, 'stream');
  if (name === '') return null;
  const rate = fields(from['rate']);
  const denominator = number(rate, 'denominator', 1);
  return {
    name,
    epoch: epochText(from['epoch']),
    state: oneOf(from, 'state', ACCOUNT_STATES, 'open'),
    dtype: text(from, 'dtype'),
    nominalRate: denominator > 0 ? number(rate, 'numerator') / denominator : 0,
    elementsPerSample: Math.max(1, number(from, 'elements_per_sample', 1)),
    station: text(from, 'station'),
    stations: list(from, 'stations').map((name) => (typeof name === 'string' ? name : '')).slice(0, MAX_HOPS),
    level: text(from, 'level'),
    labels: Object.entries(fields(from['labels'])).map(([key, label]) => [key, String(label)] as const),
    derived: flag(from, 'derived'),
    channels: list(from, 'channels').map(readChannel),
    firstIndex: number(from, 'first_index'),
    nextIndex: number(from, 'next_index'),
    ageNs: number(from, 'age_ns'),
    samplesPerSecond: number(from, 'samples_per_s'),
    lostElements: number(from, 'lost_elements'),
    lostLastHour: number(from, 'lost_last_hour_elements'),
    unsettledElements: number(from, 'unsettled_elements'),
    unauthenticDatagrams: number(from, 'unauthentic_datagrams'),
    health: oneOf(from, 'health', HEALTH, 'ok'),
    spark: Array.isArray(from['spark']) ? from['spark'].map(readBucket) : null,
  };
}

/** An epoch is shown, never computed with: text, number or `{start_ns, life}` all read the same. */
function epochText(value: unknown): string {
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  const parts = Object.values(fields(value));
  return parts.map(String).join('-');
}

function readChannel(value: unknown): Channel {
  const from = fields(value);
  const shape = list(from, 'shape').map((extent) => (typeof extent === 'number' ? extent : 0));
  return { name: text(from, 'name'), unit: text(from, 'unit'), elements: number(from, 'elements', 1), shape };
}

function readBucket(value: unknown): SparkBucket {
  if (!Array.isArray(value)) return null;
  const [low, high]: unknown[] = value;
  return typeof low === 'number' && typeof high === 'number' ? [low, high] : null;
}

/** Information about the server. */
export interface ServerInfo {
  readonly version: string;
  readonly startedNs: bigint;
  readonly nowNs: bigint;
  readonly pageProtocol: number;
  /** Older data come from an archive; the default is none. */
  readonly archive: boolean;
  /** Null without an archive. */
  readonly archiveDisk: DiskLevel | null;
}

/** Level of the disk that holds the archive. */
export interface DiskLevel {
  readonly freeBytes: number;
  readonly sizeBytes: number;
  /** The server says that it is about to be full. */
  readonly alarm: boolean;
}

/** Reads the `server` object; `page_protocol` may be next to it or in it. */
export function readServer(value: unknown, beside: Fields = {}): ServerInfo {
  const from = fields(value);
  return {
    version: text(from, 'version', '?'),
    startedNs: nanoseconds(from, 'started_ns'),
    nowNs: nanoseconds(from, 'now_ns'),
    pageProtocol: number(from, 'page_protocol', number(beside, 'page_protocol')),
    archive: flag(from, 'archive'),
    archiveDisk: isFields(from['archive_disk']) ? readDisk(from['archive_disk']) : null,
  };
}

function readDisk(from: Fields): DiskLevel {
  return { freeBytes: number(from, 'free_bytes'), sizeBytes: number(from, 'size_bytes'), alarm: flag(from, 'alarm') };
}

/** Losses on one hop of a relayed stream before the account's own, in elements. */
export interface HopLoss {
  readonly hop: number;
  /** Station that sent on it; empty where it was not told. */
  readonly station: string;
  readonly lost: ReadonlyMap<string, number>;
  readonly unexplained: number;
  readonly unsettled: number;
}

/** What the far relay of the monitor's host tells of the link before it, since it began. */
export interface RelayFact {
  readonly isUp: boolean;
  /** Times are null until they are known. */
  readonly roundTripNs: number | null;
  readonly deadlineNs: number | null;
  /** Age of samples when they were published here, over the last second. */
  readonly ageP50Ns: number | null;
  readonly ageP99Ns: number | null;
  /** Cause → elements given up. */
  readonly causes: ReadonlyMap<string, number>;
  /** Null where the relay has no archive. */
  readonly backfill: BackfillFact | null;
}

/** Holes in the archive of a far relay, filled from that of the near one. All streams of the relay together, in samples. */
export interface BackfillFact {
  readonly fetched: number;
  readonly fetchedBytes: number;
  readonly missing: number;
  /** Consecutive ranges of missing samples. */
  readonly ranges: number;
  /** Missing samples that the near archive lacks, too. */
  readonly lacking: number;
  /** Reasons why holes are not filled now. */
  readonly errors: readonly string[];
}

function readRelay(from: Fields): RelayFact {
  const time = (name: string): number | null => (typeof from[name] === 'number' || typeof from[name] === 'string' ? Number(nanoseconds(from, name)) : null);
  return {
    isUp: flag(from, 'is_up'), roundTripNs: time('round_trip_ns'), deadlineNs: time('deadline_ns'), ageP50Ns: time('age_p50_ns'),
    ageP99Ns: time('age_p99_ns'), causes: counts(from, 'causes'), backfill: isFields(from['backfill']) ? readBackfill(from['backfill']) : null,
  };
}

function readBackfill(from: Fields): BackfillFact {
  return {
    fetched: number(from, 'samples'), fetchedBytes: number(from, 'bytes'), missing: number(from, 'missing'), ranges: number(from, 'ranges'),
    lacking: number(from, 'lacking'), errors: list(from, 'errors').filter((reason) => typeof reason === 'string'),
  };
}

/** Hops before the last of a chain. */
const MAX_HOPS = 8;

function readHops(from: Fields): readonly HopLoss[] {
  const hops = list(from, 'hops').map(fields).map((hop): HopLoss => ({
    hop: number(hop, 'hop'),
    station: text(hop, 'station'),
    lost: counts(hop, 'lost'),
    unexplained: number(hop, 'unexplained'),
    unsettled: number(hop, 'unsettled'),
  }));
  // Each hop stands at its place.
  return hops.slice(0, MAX_HOPS).filter(({ hop }, place) => hop === place);
}

/** The elements of a reader's account, and the datagrams when it came over a network. */
export interface Account {
  readonly stream: string;
  readonly state: AccountState;
  readonly reader: string;
  readonly leg: string;
  readonly perSample: number;
  readonly first: number;
  readonly next: number;
  readonly delivered: number;
  readonly lost: ReadonlyMap<string, number>;
  readonly unexplained: number;
  readonly unsettled: number;
  readonly inFlight: number;
  /** Of a relayed stream: the hop on which this account is; 0 for others. */
  readonly hop: number;
  /** The hops before it. */
  readonly hops: readonly HopLoss[];
  /** Of a stream that a relay of the monitor's host publishes: its link. */
  readonly relay: RelayFact | null;
  readonly datagrams: DatagramRows | null;
  /** Gaps settled before their time for evidence was over, because too many were waiting. */
  readonly settledEarly: number;
  /** Null if the server has no socket of its own for the stream. */
  readonly socket: SocketCounts | null;
  /** Reason → datagrams in the stream's name that were not authentic; empty without any. They are in no account. */
  readonly unauthentic: ReadonlyMap<string, number>;
  /** Epochs of a secured stream that began without an answer of the publisher. */
  readonly unconfirmedEpochs: number;
  /** Null on a bus without keys. */
  readonly keys: KeyState | null;
  readonly gaps: readonly GapDetail[];
}

/** State of the monitor's keys. */
export interface KeyState {
  /** Name of the secret in use; empty without one. */
  readonly token: string;
  /** Null where a file has the secrets. */
  readonly service: KeyServiceState | null;
}

/** State of the key service as the monitor sees it. */
export interface KeyServiceState {
  readonly address: string;
  /** Time until the last secret held ends; null without secrets. */
  readonly leftNs: number | null;
  /** Since then it has not answered; null while it does. */
  readonly silentSince: bigint | null;
  readonly unanswered: number;
  /** Reason for which it gives no secrets, or empty. */
  readonly refused: string;
}

/** The network counters, in datagrams. */
export interface DatagramRows {
  readonly first: number;
  readonly next: number;
  readonly received: number;
  readonly duplicates: number;
}

/** Counts of the receiving socket, over all streams that share it. */
export interface SocketCounts {
  readonly address: string;
  /** Datagrams that it dropped since it was opened. */
  readonly drops: number;
  /** Stage → datagrams counted there beyond those that are missing in the socket's streams. */
  readonly unmatched: ReadonlyMap<string, number>;
  /** Reason → datagrams that were read and not used. */
  readonly unused: ReadonlyMap<string, number>;
  /** Longest time a datagram waited in the socket before it was read. */
  readonly longestWaitNs: number;
}

/** Reads an account (`docs/reference/formats/account.md`). */
export function readAccount(value: unknown): Account {
  const from = fields(value);
  const elements = fields(from['elements']);
  const ladder = list(from, 'ladder').map(fields);
  const lost = new Map(counts(elements, 'lost'));
  for (const rung of ladder) lost.set(text(rung, 'stage'), number(rung, 'elements'));
  const datagrams = fields(from['datagrams']);
  return {
    stream: text(from, 'stream'),
    state: oneOf(from, 'state', ACCOUNT_STATES, 'open'),
    reader: text(from, 'reader'),
    leg: text(from, 'leg'),
    perSample: Math.max(1, number(elements, 'per_sample', 1)),
    first: number(elements, 'first'),
    next: number(elements, 'next'),
    delivered: number(elements, 'delivered'),
    lost,
    unexplained: number(elements, 'unexplained'),
    unsettled: number(elements, 'unsettled'),
    inFlight: number(elements, 'in_flight'),
    hop: Math.max(0, Math.min(MAX_HOPS, Math.trunc(number(fields(from['origin']), 'hop')))),
    hops: readHops(from),
    relay: isFields(from['relay']) ? readRelay(from['relay']) : null,
    datagrams: 'received' in datagrams ? readDatagrams(datagrams) : null,
    settledEarly: number(from, 'settled_early'),
    socket: isFields(from['socket']) ? readSocket(from['socket']) : null,
    unauthentic: counts(from, 'unauthentic'),
    unconfirmedEpochs: number(from, 'unconfirmed_epochs'),
    keys: isFields(from['keys']) ? readKeys(from['keys']) : null,
    gaps: list(from, 'gaps').map(readGapDetail),
  };
}

function readKeys(from: Fields): KeyState {
  return { token: text(from, 'token'), service: isFields(from['service']) ? readKeyService(from['service']) : null };
}

function readKeyService(from: Fields): KeyServiceState {
  const has = (name: string): boolean => from[name] !== undefined && from[name] !== null;
  return {
    address: text(from, 'address'),
    leftNs: has('left_ns') ? Number(nanoseconds(from, 'left_ns')) : null,
    silentSince: has('silent_since_ns') ? nanoseconds(from, 'silent_since_ns') : null,
    unanswered: number(from, 'unanswered'),
    refused: text(from, 'refused'),
  };
}

function readDatagrams(from: Fields): DatagramRows {
  return {
    first: number(from, 'first'),
    next: number(from, 'next'),
    received: number(from, 'received'),
    duplicates: number(from, 'duplicates'),
  };
}

function readSocket(from: Fields): SocketCounts {
  return {
    address: text(from, 'address'),
    drops: number(from, 'drops'),
    unmatched: counts(from, 'unmatched'),
    unused: counts(from, 'unused'),
    longestWaitNs: Number(nanoseconds(from, 'longest_wait_ns')),
  };
}

/** One gap with its evidence, from `/api/gaps`. */
export interface GapDetail {
  readonly id: string;
  readonly from: bigint;
  readonly to: bigint;
  readonly firstIndex: number;
  readonly samples: number;
  readonly lost: ReadonlyMap<string, number>;
  readonly unexplained: number;
  readonly unsettled: number;
  /** Of a relayed stream: the hops before the last relay, of which `lost` has the sum at `source`. */
  readonly hops: readonly HopLoss[];
  /** True if there was no recorder or publisher the whole time, for any number of elements. */
  readonly isAbsence: boolean;
  /** Elements of a time without recorder or publisher: not lost. */
  readonly absent: number;
  readonly apportioned: boolean;
  readonly evidence: readonly string[];
}

/** Reads one gap. */
export function readGapDetail(value: unknown): GapDetail {
  const from = fields(value);
  return {
    id: String(from['id'] ?? ''),
    from: nanoseconds(from, 'from_ns'),
    to: nanoseconds(from, 'to_ns'),
    firstIndex: number(from, 'first_index'),
    samples: number(from, 'samples'),
    lost: counts(from, 'lost'),
    unexplained: number(from, 'unexplained'),
    unsettled: number(from, 'unsettled'),
    hops: readHops(from),
    absent: number(from, 'reader_absent'),
    isAbsence: ['reader_absent', 'publisher_absent'].includes(text(from, 'kind')),
    apportioned: flag(from, 'apportioned'),
    evidence: list(from, 'evidence').filter((line): line is string => typeof line === 'string'),
  };
}

/** Elements never shown by this browser. */
export interface BrowserLoss {
  readonly shownFrames: number;
  readonly droppedFrames: number;
  readonly lostElements: ReadonlyMap<string, number>;
}

/** A text message from the server. */
export type ServerMessage =
  | { readonly type: 'hello'; readonly server: ServerInfo }
  | { readonly type: 'streams'; readonly streams: readonly Stream[] }
  | { readonly type: 'account'; readonly account: Account }
  | { readonly type: 'browser'; readonly loss: BrowserLoss }
  | { readonly type: 'alarms'; readonly news: AlarmNews }
  /** There are other runs than before. */
  | { readonly type: 'runs' }
  | { readonly type: 'note'; readonly level: 'info' | 'warn'; readonly text: string }
  | SharedMessage
  | { readonly type: 'unknown'; readonly name: string };

/** Reads a text message; one of an unknown type is named and left alone. */
export function readMessage(value: unknown): ServerMessage {
  const from = fields(value);
  const type = text(from, 'type');
  switch (type) {
    case 'hello':
      return { type, server: readServer(from['server'], from) };
    case 'streams':
      return { type, streams: readStreams(from) };
    case 'account':
      return { type, account: readAccount(from) };
    case 'browser':
      return { type, loss: readBrowserLoss(from) };
    case 'alarms':
      return { type, news: readAlarmNews(from) };
    case 'runs':
      return { type };
    case 'note':
    case 'notice':
      return { type: 'note', level: oneOf(from, 'level', ['info', 'warn'] as const, 'info'), text: text(from, 'text') };
    default:
      return readSharedMessage(from) ?? { type: 'unknown', name: type };
  }
}

/** Reads the list under `streams`. */
export function readStreams(from: Fields): readonly Stream[] {
  return list(from, 'streams').map(readStream).filter((stream) => stream !== null);
}

function readBrowserLoss(from: Fields): BrowserLoss {
  return {
    shownFrames: number(from, 'shown_frames'),
    droppedFrames: number(from, 'dropped_frames'),
    lostElements: counts(from, 'lost_elements'),
  };
}

/** One trace a view asks for. */
export interface TraceRequest {
  readonly stream: string;
  readonly channel: string;
}

/** Request of a plot to the server. */
export interface ViewRequest {
  readonly view: number;
  readonly traces: readonly TraceRequest[];
  readonly widthPx: number;
  readonly spanNs: bigint;
  /** Null follows the live edge. */
  readonly endNs: bigint | null;
}

/** Writes a view request; the nanoseconds keep all their digits, and so do the values of its frames. */
export function writeView(request: ViewRequest): string {
  const traces = JSON.stringify(request.traces.map(({ stream, channel }) => ({ stream, channel })));
  return `{"type":"view","view":${request.view},"traces":${traces},"width_px":${request.widthPx}`
    + `,"span_ns":${request.spanNs},"end_ns":${request.endNs ?? 'null'},"exact":true,"means":true}`;
}
