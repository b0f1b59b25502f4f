// GET /status: how the installation is, as the organization sees it.
import { api, ok, type Schemas } from './client';

export type Status = Schemas['Status'];

export const readStatus = (signal?: AbortSignal): Promise<Status> =>
  ok(api.GET('/status', { signal }));

// unlistedOf returns how many failing destinations are not in the list, which has those that began
// last.
export const unlistedOf = ({ webhooks }: Partial<Status> = {}): number =>
  webhooks ? Math.max(0, (webhooks.failing_total ?? 0) - webhooks.failing.length) : 0;

export const engineLabels = {
  s3: 'Object storage',
  db: 'Databases',
  kv: 'Key-value stores',
} as const;
export const engineKinds = Object.keys(engineLabels) as (keyof typeof engineLabels)[];
