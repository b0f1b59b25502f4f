// Spans of time for plots, and how fine they are drawn.

export type Granularity = 'minute' | 'hour' | 'day';

export const spans = [
  { name: '1h', label: '1 hour', ms: 3_600_000 },
  { name: '24h', label: '24 hours', ms: 86_400_000 },
  { name: '7d', label: '7 days', ms: 7 * 86_400_000 },
  { name: '30d', label: '30 days', ms: 30 * 86_400_000 },
  { name: '1y', label: '1 year', ms: 365 * 86_400_000 },
] as const;

// granularityOf returns the finest that gives at most about 400 bars.
export function granularityOf(ms: number): Granularity {
  if (ms <= 6 * 3_600_000) return 'minute';
  return ms <= 14 * 86_400_000 ? 'hour' : 'day';
}

// window returns the span of the address: ?from&to (from zooming), or ?span, or the last 24 hours.
export function windowOf(
  query: URLSearchParams,
  fallback = '24h',
): { start: Date; end: Date; name: string; granularity: Granularity } {
  const from = Date.parse(query.get('from') ?? '');
  const to = Date.parse(query.get('to') ?? '');
  if (from < to)
    return {
      start: new Date(from),
      end: new Date(to),
      name: '',
      granularity: granularityOf(to - from),
    };
  const span = spans.find((s) => s.name === (query.get('span') ?? fallback)) ?? spans[1];
  const end = new Date(Math.ceil(Date.now() / 60_000) * 60_000);
  return {
    start: new Date(end.getTime() - span.ms),
    end,
    name: span.name,
    granularity: granularityOf(span.ms),
  };
}
