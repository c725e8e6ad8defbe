/** Names for the shapes of the service's answers; the shapes come from its OpenAPI document. */
import type { components } from "./schema.ts";

type Schemas = components["schemas"];

export type Job = Schemas["Job"];
export type Jobs = Schemas["Jobs"];
export type JobVersion = Schemas["JobVersion"];
export type JobVersions = Schemas["JobVersions"];
export type Run = Schemas["Run"];
export type Runs = Schemas["Runs"];
export type Dataset = Schemas["Dataset"];
export type Datasets = Schemas["Datasets"];
export type DatasetVersion = Schemas["DatasetVersion"];
export type DatasetVersions = Schemas["DatasetVersions"];
export type Namespaces = Schemas["Namespaces"];
export type LineageGraph = Schemas["Graph"];
export type SearchResult = Schemas["SearchResult"];
export type SearchResults = Schemas["SearchResults"];
export type EventCount = Schemas["EventCount"];
export type Count = Schemas["Count"];
export type RecordOfCatalog = Schemas["Record"];
export type RunBatches = Schemas["RunBatches"];
export type Batch = Schemas["Batch"];
export type ReplayAnswer = Schemas["ReplayAnswer"];
export type MetricsNow = Schemas["MetricsNow"];
export type MetricsHistory = Schemas["MetricsHistory"];
export type MetricsPoint = Schemas["MetricsPoint"];
export type Alert = Schemas["Alert"];
/** How many there are in each state, also of those that the answer has no room for. */
export type Alerts = Schemas["Alerts"] & { states?: Record<string, number> | null };
export type Incidents = Schemas["Incidents"];
