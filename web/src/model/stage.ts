/**
 * The stages of the account in the order of the path, with their names on the page.
 *
 * Names and codes are those of the ledger (`docs/protocol/account.md`); the colour of a stage
 * comes from its place, see `style/base.css`. Remedies are the guide's (`docs/guide/losses.md`), in one short line;
 * the doctor's findings for one host go further.
 */
import { shortRemedy } from '../guide/guide';
import { CODE_ABSENT, CODE_UNEXPLAINED, CODE_UNSETTLED } from '../wire/frame';

/** Part of the path that a stage belongs to; decides its colour. */
export type Place =
  | 'publisher'
  | 'injected'
  | 'sender'
  | 'network'
  | 'receiver'
  | 'reader'
  | 'browser'
  | 'unexplained'
  | 'unsettled';

/** One stage. */
export interface Stage {
  readonly name: string;
  readonly place: Place;
  /** A few plain words, fit for a sentence: "lost 212 samples in the …". */
  readonly words: string;
  /** Remedy, in one line of the guide; `sectionOfStage` has all of it. */
  readonly remedy: string;
  /** Of a relayed stream: the earlier hop that lost it; absent on the reader's own. */
  readonly hop?: number;
}

const stage = (name: string, place: Place, words: string): Stage => ({ name, place, words, remedy: shortRemedy(name) });

/** Every stage; the index is its code on the wire. */
export const STAGES: readonly Stage[] = [
  stage('source', 'publisher', 'source'),
  stage('publisher_queue', 'publisher', 'publisher queue'),
  stage('publisher_paused', 'publisher', 'publisher paused'),
  stage('injected', 'injected', 'injected loss'),
  stage('sender_socket', 'sender', "sender's socket"),
  stage('sender_ip', 'sender', "sender's IP layer"),
  stage('sender_qdisc', 'sender', "sender's queue discipline"),
  stage('sender_nic', 'sender', "sender's network card"),
  stage('network', 'network', 'network'),
  stage('receiver_nic', 'receiver', "receiver's network card"),
  stage('receiver_hook', 'receiver', 'receive hook'),
  stage('receiver_backlog', 'receiver', 'softirq backlog'),
  stage('receiver_ip', 'receiver', "receiver's IP layer"),
  stage('receiver_reassembly', 'receiver', 'IP reassembly'),
  stage('receiver_checksum', 'receiver', 'UDP checksum'),
  stage('receiver_no_socket', 'receiver', 'no socket'),
  stage('receiver_socket_filter', 'receiver', 'socket filter'),
  stage('receiver_socket_buffer', 'receiver', 'socket buffer'),
  stage('receiver_udp_memory', 'receiver', 'UDP memory'),
  stage('decode', 'receiver', 'decoding'),
  stage('late', 'receiver', 'arriving late'),
  stage('reader_lag', 'reader', 'reader too slow'),
  stage('deadline', 'reader', 'deadline'),
  stage('browser', 'browser', 'this browser'),
  stage('archive_write', 'browser', 'archive writing'),
];

/** Loss for which no evidence was found. */
export const UNEXPLAINED = stage('unexplained', 'unexplained', 'unexplained');

/** Loss whose stage is not yet known. */
export const UNSETTLED = stage('unsettled', 'unsettled', 'not settled yet');

/** A time without recorder or publisher: not a loss, and drawn as unknown. */
export const ABSENT: Stage = {
  name: 'reader_absent',
  place: 'unsettled',
  words: 'no recorder or publisher',
  remedy: 'keep the publisher and a recorder running; nothing was lost on the path',
};

const BY_NAME = new Map([...STAGES, UNEXPLAINED, UNSETTLED].map((each) => [each.name, each]));

/** Returns the stage with this code on the wire; an unknown code reads as unexplained. */
export function stageOfCode(code: number): Stage {
  if (code === CODE_UNSETTLED) return UNSETTLED;
  if (code === CODE_ABSENT) return ABSENT;
  return code === CODE_UNEXPLAINED ? UNEXPLAINED : STAGES[code] ?? UNEXPLAINED;
}

/** Returns the stage of this name; an unknown one is shown by its name. */
export function stageOfName(name: string): Stage {
  return BY_NAME.get(name) ?? { ...UNEXPLAINED, name, words: name.replaceAll('_', ' ') };
}

const ON_HOPS = new Map<string, Stage>();

/** Returns a stage on an earlier hop of a relayed stream, always the same object. */
export function onHop(stage: Stage, hop: number): Stage {
  const key = stageKey({ name: stage.name, hop });
  const known = ON_HOPS.get(key) ?? { ...stage, words: `${stage.words} on hop ${hop}`, hop };
  ON_HOPS.set(key, known);
  return known;
}

/** Names a stage and its hop, to be compared. */
export const stageKey = ({ name, hop }: Pick<Stage, 'name' | 'hop'>): string => (hop === undefined ? name : `${hop} ${name}`);

/** Writes a stage's name with its hop, as in lists. */
export const stageLabel = ({ name, hop }: Pick<Stage, 'name' | 'hop'>): string => (hop === undefined ? name : `${name} (hop ${hop})`);

/** Returns the stage of these counts that lost most, `unexplained` among them, or null when nothing is lost. */
export function leadingStage(rows: readonly (readonly [Stage, number])[]): Stage | null {
  let most: readonly [Stage, number] | null = null;
  for (const row of rows) {
    if (row[0].name !== UNSETTLED.name && row[1] > 0 && (most === null || row[1] > most[1])) most = row;
  }
  return most === null ? null : most[0];
}
