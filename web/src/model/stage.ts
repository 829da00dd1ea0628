/**
 * The stages of the account in the order of the way, with the words the page uses for them.
 *
 * Names and codes are those of the ledger (architecture, "The account, precisely"); the colour of a stage
 * comes from its place, see `style/stages.css`. Cures are first steps that hold in general; the doctor's
 * verdict for one host goes further.
 */
import { CODE_UNEXPLAINED, CODE_UNSETTLED } from '../wire/frame';

/** Where on the way a stage lies; decides its colour. */
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
  /** What to do about it, or an empty text where nothing general can be said. */
  readonly cure: string;
}

const stage = (name: string, place: Place, words: string, cure = ''): Stage => ({ name, place, words, cure });

/** Every stage; the index is its code on the wire. */
export const STAGES: readonly Stage[] = [
  stage('source', 'publisher', 'source', 'The recording or device itself has this hole; nothing downstream lost it.'),
  stage('publisher_queue', 'publisher', 'publisher queue',
    'The publisher offers more than its sender can send: raise its queue, or give the sender its own core.'),
  stage('publisher_paused', 'publisher', 'publisher paused', 'Sent on purpose only while a reader is heard.'),
  stage('injected', 'injected', 'injected loss', 'Planted on purpose: switch the loss off.'),
  stage('sender_socket', 'sender', "sender's socket",
    'The socket refused it: raise net.core.wmem_max and the send buffer, or pace.'),
  stage('sender_ip', 'sender', "sender's IP layer", 'Look at firewall, route and neighbour on the sending host.'),
  stage('sender_qdisc', 'sender', "sender's queue discipline",
    'tc -s qdisc show: raise its limit, or pace below the rate of the link.'),
  stage('sender_nic', 'sender', "sender's network card", 'ethtool -S: raise the transmit ring (ethtool -G).'),
  stage('network', 'network', 'network', 'Between the hosts: look at switch counters, IGMP snooping and cabling.'),
  stage('receiver_nic', 'receiver', "receiver's network card", 'Raise the receive ring: ethtool -G … rx.'),
  stage('receiver_hook', 'receiver', 'receive hook', 'An XDP, TC or nft program dropped it: nft list ruleset.'),
  stage('receiver_backlog', 'receiver', 'softirq backlog', 'Raise net.core.netdev_max_backlog, or spread receive queues.'),
  stage('receiver_ip', 'receiver', "receiver's IP layer", 'Check rp_filter and that the group is joined on this interface.'),
  stage('receiver_reassembly', 'receiver', 'IP reassembly', 'Send datagrams that fit the MTU, or raise net.ipv4.ipfrag_high_thresh.'),
  stage('receiver_checksum', 'receiver', 'UDP checksum', 'Damaged on the way: check cabling and offloads.'),
  stage('receiver_no_socket', 'receiver', 'no socket', 'Nobody listened on the port when it came.'),
  stage('receiver_socket_filter', 'receiver', 'socket filter', 'A filter on the socket dropped it.'),
  stage('receiver_socket_buffer', 'receiver', 'socket buffer',
    'Raise net.core.rmem_max and the receive buffer: sysctl -w net.core.rmem_max=67108864.'),
  stage('receiver_udp_memory', 'receiver', 'UDP memory', 'Raise net.ipv4.udp_mem on the receiving host.'),
  stage('decode', 'receiver', 'decoding', 'It arrived but could not be read: check versions and cabling.'),
  stage('late', 'receiver', 'arriving late', 'It came after its gap was declared: the path reorders more than allowed for.'),
  stage('reader_lag', 'reader', 'reader too slow', 'The ring lapped the reader: do less in it, or give it a larger ring.'),
  stage('deadline', 'reader', 'deadline', 'Given up on purpose by the reliable reach.'),
  stage('browser', 'browser', 'this browser', 'The page could not keep up: fewer plots, or a narrower window.'),
  stage('archive_write', 'browser', 'archive writing', 'The disk was too slow or full where the archive is written.'),
];

/** Loss for which no evidence was found. */
export const UNEXPLAINED = stage('unexplained', 'unexplained', 'unexplained',
  'No evidence at either end. Run tallycast doctor watch on both hosts.');

/** Loss whose stage is still being looked for. */
export const UNSETTLED = stage('unsettled', 'unsettled', 'not settled yet');

const BY_NAME = new Map([...STAGES, UNEXPLAINED, UNSETTLED].map((each) => [each.name, each]));

/** Returns the stage with this code on the wire; an unknown code reads as unexplained. */
export function stageOfCode(code: number): Stage {
  if (code === CODE_UNSETTLED) return UNSETTLED;
  return code === CODE_UNEXPLAINED ? UNEXPLAINED : STAGES[code] ?? UNEXPLAINED;
}

/** Returns the stage of this name; an unknown name keeps its own words. */
export function stageOfName(name: string): Stage {
  return BY_NAME.get(name) ?? { ...UNEXPLAINED, name, words: name.replaceAll('_', ' ') };
}

/** Returns the stage that lost most, `unexplained` among them, or null when nothing is lost. */
export function leadingStage(lost: ReadonlyMap<string, number>, unexplained: number): Stage | null {
  let most: readonly [string, number] | null = null;
  for (const entry of [...lost, [UNEXPLAINED.name, unexplained] as const]) {
    if (entry[1] > 0 && (most === null || entry[1] > most[1])) most = entry;
  }
  return most === null ? null : stageOfName(most[0]);
}
