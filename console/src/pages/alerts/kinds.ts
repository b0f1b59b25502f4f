import type { Schemas } from '../../api/client';
// The kinds of alerts: what they are called, and the numbers that each uses, with their defaults.

type Alert = Schemas['Alert'];
export type Kind = Alert['kind'];
export const numbers = ['minutes', 'count', 'percent'] as const;

interface About {
  label: string;
  minutes?: [label: string, fallback: number];
  count?: [label: string, fallback: number];
  percent?: [label: string, fallback: number];
  webhook?: true;
  evaluation?: true;
}

export const kinds: Record<Kind, About> = {
  destination_failing: {
    label: 'A destination fails',
    minutes: ['For at least (minutes)', 10],
    webhook: true,
  },
  delivery_overdue: {
    label: 'Deliveries are late',
    minutes: ['By at least (minutes)', 15],
    webhook: true,
  },
  requests_rejected: {
    label: 'Requests are rejected',
    count: ['At least', 10],
    minutes: ['Within (minutes)', 60],
    webhook: true,
  },
  delivery_pass_rate: {
    label: 'Too few deliveries succeed',
    percent: ['Less than (%)', 95],
    minutes: ['Within (minutes)', 60],
    count: ['Of at least', 20],
    webhook: true,
  },
  run_pass_rate: {
    label: 'Too few evaluation runs pass',
    percent: ['Less than (%)', 90],
    minutes: ['Within (minutes)', 60],
    count: ['Of at least', 20],
    evaluation: true,
  },
  disk_low: { label: 'The disk of the server fills up', percent: ['Free, less than (%)', 10] },
  backup_failed: { label: 'A backup failed' },
};

export const targets: Record<Alert['target']['type'], string> = {
  slack: 'Slack',
  mail: 'Mail',
  webhook: 'Webhook',
};

// condition says when an alert fires, after its kind.
export function condition(a: Alert): string {
  const { minutes, count, percent } = a.params;
  const parts = [
    percent && `less than ${percent} %`,
    count && `at least ${count}`,
    minutes && (minutes === 1 ? '1 minute' : `${minutes} minutes`),
    a.params.webhook_id ?? a.params.eval_id,
  ].filter(Boolean);
  return parts.length ? `: ${parts.join(', ')}` : '';
}
