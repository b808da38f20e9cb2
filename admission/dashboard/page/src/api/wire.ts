// The answers of the dashboard process. docs/http-api.md describes them. Amounts are integers: cpu in thousandths, all else in
// its base unit. Names are what users wrote: nothing here is markup.

export interface Session {
  user: string;
  signIn: 'none' | 'token';
  version: string;
  cluster: string;
}

export interface FlavorEntry {
  name: string;
  topology: string;
  levels: string[];
  hosts: number;
}

/** What holds hosts for a time; empty texts where the user may not see it. */
export interface Reservation {
  name: string;
  start: string;
  end: string;
}

/** Columns instead of records: 15,000 hosts are read in a fraction of the time. */
export interface WireTree {
  flavor: string;
  topology: string;
  levels: string[];
  resources: string[];
  version: number;
  /** Name and position of the parent, which comes first; -1 for a domain of the widest level. */
  domains: [string, number][];
  hosts: {
    name: string[];
    domain: number[];
    /** 0 usable, 1 cordoned, 2 failed */
    state: number[];
    why: Record<string, string>;
    /** Positions in `reservations`. */
    reserved: Record<string, number[]>;
    /** Positions in `workloads` of those that wait until others have left a host. */
    heldFor: Record<string, number[]>;
    total: number[][];
    used: number[][];
    foreign: number[][];
    held: number[][];
  };
  /** Key (empty where the user may not see it) and ClusterQueue. */
  workloads: [string, string][];
  reservations: Reservation[];
  runs: { host: number[]; workload: number[]; pods: number[]; amounts: number[][] };
}

export interface WireHost {
  i: number;
  state: number;
  why: string;
  total: number[];
  used: number[];
  foreign: number[];
  held: number[];
  runs: [string, string, number, number[]][];
  reserved: Reservation[];
  /** Key and ClusterQueue of the workloads that wait until others have left it. */
  heldFor: [string, string][];
}

export interface TreeChange {
  flavor: string;
  version: number;
  hosts: WireHost[];
}

/** What a workload with quota lacks. */
export interface RowNote {
  type: string;
  reason: string;
  message: string;
}

export interface WorkloadRow {
  namespace: string;
  name: string;
  job: string;
  queue: string;
  clusterQueue: string;
  priority: number;
  pods: number;
  state: string;
  reason: string;
  message: string;
  /** The first line of its explanation; empty until the controller has written one. */
  hint: string;
  notes: RowNote[];
  since: string | null;
  created: string | null;
  /** When it was admitted; null while it waits. */
  started: string | null;
  /** Seconds of its earlier runs. */
  ranBefore: number;
  gpus: number;
  position: number | null;
  /** Hosts that others are leaving for it. */
  heldHosts: number;
  earliestStart: string | null;
  /** The latest start that is expected. */
  expectedStart: string | null;
}

export interface WorkloadChange {
  changed: WorkloadRow[];
  removed: string[];
}

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
  lastTransitionTime: string | null;
}

export interface PlacedPods {
  flavor: string;
  host: string;
  pods: number;
  podSet: string;
}

export interface PodEntry {
  name: string;
  host: string;
  phase: string;
  podSet: string;
}

export interface Taker {
  kind: string;
  name: string;
  amount: string;
}

export interface Shortage {
  resource: string;
  asked: string;
  free: string;
  pods: number;
  short: string;
  takers: Taker[];
}

export interface LevelView {
  level: string;
  domain: string[];
  fits: number;
  wanted: number;
  unit: string;
  everywhere: number;
  asked: boolean;
  shortages: Shortage[];
  torn: Shortage[];
  exclusions: { code: string; what: string; nodes: number; pods: number }[];
  fragmented: boolean;
}

export interface QuotaView {
  resource: string;
  asked: string;
  nominal: string;
  available: string;
  most: string;
  short: string;
  users: { clusterQueue: string; amount: string; borrowed: string }[];
  workloads: Taker[];
}

export interface FlavorView {
  flavor: string;
  topology: string | null;
  code: string | null;
  message: string;
  quota: QuotaView[];
  podSets: { podSets: string[]; message: string; levels: LevelView[] }[];
}

export interface Explanation {
  workload: string;
  clusterQueue: string;
  verdict: string;
  reason: string;
  message: string;
  headline: string;
  codes: string[];
  flavors: FlavorView[];
  remedies: { text: string }[];
  taken: { remedy: { text: string }; by: string[] }[];
  ahead: string[];
  victims: string[];
  behind: { workload: string; start: string | null }[];
  starts: string | null;
  cause: string;
  complete: boolean;
}

export interface WorkloadDetail extends WorkloadRow {
  explanation: Explanation | null;
  conditions: Condition[];
  podList: PodEntry[];
  places: PlacedPods[];
}

export interface QueueQuota {
  flavor: string;
  resource: string;
  nominal: number;
  used: number;
  borrowed: number;
  lent: number;
  pending: number;
  borrowingLimit: number | null;
  lendingLimit: number | null;
}

export interface QueueEntry {
  name: string;
  cohort: string;
  active: boolean;
  message: string;
  strategy: string;
  pending: number;
  admitted: number;
  quotas: QueueQuota[];
  localQueues: { namespace: string; name: string; pending: number; admitted: number }[];
  /** Sums over LocalQueues of namespaces that the user may not see. */
  others?: { localQueues: number; pending: number; admitted: number };
}

export interface CohortEntry {
  name: string;
  parent: string;
  quotas: { flavor: string; resource: string; nominal: number; used: number }[];
}

export interface Queues {
  clusterQueues: QueueEntry[];
  cohorts: CohortEntry[];
}

export interface WhatIfJob {
  name: string;
  namespace: string;
  queue: string;
  pods: number;
  requests: Record<string, string>;
  level: string;
  levelMode: 'required' | 'preferred' | '';
  priorityClass: string;
  seconds: number | null;
}

export interface WhatIf {
  items: { explanation: Explanation; places: PlacedPods[] }[];
  errors: string[];
}
