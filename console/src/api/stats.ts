// Webhook traffic over time, of one webhook or of all.
import { raw, type Schemas } from './client';

export interface TrafficQuery {
  webhookId?: string;
  start?: string;
  end?: string;
  granularity?: 'minute' | 'hour' | 'day';
}

export function traffic(
  query: TrafficQuery,
  signal?: AbortSignal,
): Promise<Schemas['StatsTimeseries']> {
  const set = Object.entries(query).filter(([, value]) => value !== undefined) as [
    string,
    string,
  ][];
  return raw(
    'GET',
    '/webhook/analytics/org/timeseries?' + new URLSearchParams(set),
    undefined,
    signal,
  );
}
