// Projects by id, for filters and names.
import { api, list } from './client';

export const readProjects = async (signal?: AbortSignal) =>
  (await list(api.GET('/cli/project', { params: { query: { limit: 1000 } }, signal }))).items;
