// GET /status: how the installation is, as the organization sees it.
import { optional, raw } from './client';

export interface EngineState {
  engine: string;
  ok: boolean;
  error?: string;
}

export interface Status {
  version: string;
  started_at: string;
  replicas: number;
  database: { engine: string; ok: boolean };
  regions: { region: string; engines: Record<'s3' | 'db' | 'kv', EngineState | undefined> }[];
  // webhooks is left out for those who may not read them, and while the database cannot be used.
  webhooks?: {
    pending: number;
    oldest_due_at?: string;
    failing: { webhook_id: string; destination_id: string; host: string; since: string; count: number; last_error: string }[];
  };
}

// readStatus returns undefined if the server does not have the route.
export const readStatus = (signal?: AbortSignal) => optional(raw<Status>('GET', '/status', undefined, signal));

export const engineLabels = { s3: 'Object storage', db: 'Databases', kv: 'Key-value stores' } as const;
