// The live stream of a webhook's receipts, as its page shows it: the newest ones, with their
// states.
import { SvelteMap } from 'svelte/reactivity';
import type { Schemas } from '../../api/client';
import { asProblem, type Problem } from '../../api/problem';
import { follow, type ServerEvent } from '../../lib/events';
import { rowOf, type Row, type States } from './rows';

// most is how many receipts a page keeps. Older ones are on the server.
export const most = 1000;
// slack is how old an event may be when it is shown, in milliseconds, before the page says that it
// is behind.
const slack = 5_000;

export class Stream {
  // rows are newest first.
  rows = $state.raw<Row[]>([]);
  states = new SvelteMap<string, States>();
  connection = $state<'connecting' | 'open' | 'waiting' | 'ended'>('connecting');
  problem = $state.raw<Problem>();
  // rate is the number of receipts of the last second. behind is how old the last event was, in
  // milliseconds.
  rate = $state(0);
  behind = $state(0);
  // held is how many receipts have come while the stream is paused.
  held = $state(0);
  // missing is the time since when requests are no longer kept that have not been shown, if there
  // are any.
  missing = $state('');

  private paused = false;
  private waiting: Row[] = []; // received but not shown, oldest first
  private ended = new Map<string, States>();
  private frame = 0;
  private seen = 0;
  private age = 0;
  private clock = 0;
  private abort = new AbortController();
  private timer: ReturnType<typeof setInterval>;

  // opened is called when the stream is connected for the first time: what came before is not in
  // it.
  constructor(webhookId: string, opened: () => void) {
    this.timer = setInterval(() => this.second(), 1000);
    follow('/webhook/tail/' + encodeURIComponent(webhookId), this.abort.signal, {
      event: (e) => this.take(e),
      state: (state, clock) => {
        if (state === 'open' && this.connection === 'connecting') opened();
        this.connection = state;
        this.clock = clock;
      },
    }).catch((thrown) => {
      this.connection = 'ended';
      this.problem = asProblem(thrown);
    });
  }

  // pause holds new receipts back, or shows them.
  pause(paused: boolean) {
    this.paused = paused;
    if (!paused) this.show();
  }

  stop() {
    this.abort.abort();
    clearInterval(this.timer);
    cancelAnimationFrame(this.frame);
  }

  private take(e: ServerEvent) {
    if (e.event === 'receipt') this.receive(rowOf(JSON.parse(e.data)));
    else if (e.event === 'delivery') this.finish(JSON.parse(e.data));
    else if (e.event === 'gap') this.missing ||= JSON.parse(e.data).since;
    // Events are shown once for each frame. A page in the background has no frames.
    if (this.waiting.length + this.ended.size >= most) this.show();
    else this.frame ||= requestAnimationFrame(() => this.show());
  }

  private receive(row: Row) {
    this.waiting.push(row);
    this.seen++;
    this.age = Date.now() + this.clock - Date.parse(row.date);
    if (this.paused) this.held++;
  }

  private finish(d: Schemas['WebhookDelivery']) {
    if (d.status === 'pending') return;
    const states = this.ended.get(d.webhook_receipt_id) ?? this.states.get(d.webhook_receipt_id);
    this.ended.set(d.webhook_receipt_id, { ...states, [d.webhook_destination_id]: d.status });
  }

  private show() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (this.paused) this.waiting = this.waiting.slice(-most);
    else if (this.waiting.length) {
      this.rows = [...this.waiting.reverse(), ...this.rows].slice(0, most);
      this.waiting = [];
      this.held = 0;
    }
    this.keepStates();
  }

  // keepStates forgets the states of receipts that came before those of the page.
  private keepStates() {
    for (const [id, states] of this.ended) this.states.set(id, states);
    this.ended.clear();
    for (const id of this.states.keys()) {
      if (this.states.size <= 2 * most) break;
      this.states.delete(id);
    }
  }

  private second() {
    this.rate = this.seen;
    this.behind = this.seen && this.age > slack ? this.age : 0;
    this.seen = 0;
  }
}
