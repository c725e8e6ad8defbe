/** The layout around all views: navigation, search and the number of firing alerts. */
import { Component, type ReactNode, Suspense, lazy, useEffect } from "react";
import { useResource } from "./api/useResource.ts";
import type { Alerts } from "./api/types.ts";
import { countOf } from "./model/alerts.ts";
import { visible } from "./model/names.ts";
import { type Route, to } from "./model/route.ts";
import { Icon, type IconName } from "./ui/Icon.tsx";
import { Search } from "./ui/Search.tsx";
import { Loading, Notice } from "./ui/States.tsx";
import { ThemeSwitch } from "./ui/ThemeSwitch.tsx";
import { Link, useAddress } from "./ui/router.tsx";

const DashboardView = lazy(() => import("./views/DashboardView.tsx"));
const GraphView = lazy(() => import("./views/GraphView.tsx"));
const RecordView = lazy(() => import("./views/RecordView.tsx"));
const JobView = lazy(() => import("./views/JobView.tsx"));
const RunView = lazy(() => import("./views/RunView.tsx"));
const DatasetView = lazy(() => import("./views/DatasetView.tsx"));
const ListView = lazy(() => import("./views/ListView.tsx"));
const AlertsView = lazy(() => import("./views/AlertsView.tsx"));

function view(route: Route): ReactNode {
  switch (route.view) {
    case "dashboard":
      return <DashboardView />;
    case "graph":
      return <GraphView />;
    case "record":
      return <RecordView key={route.text} address={route.address} text={route.text} />;
    case "jobs":
    case "datasets":
      return <ListView key={route.view} kind={route.view} />;
    case "job":
      return <JobView key={`${route.namespace} ${route.name}`} namespace={route.namespace} name={route.name} />;
    case "dataset":
      return <DatasetView key={`${route.namespace} ${route.name}`} namespace={route.namespace} name={route.name} />;
    case "run":
      return <RunView key={route.id} id={route.id} />;
    case "alerts":
      return <AlertsView />;
    case "unknown":
      return (
        <Notice icon="search" title="There is no such view">
          <p>
            <code>{visible(route.path)}</code> does not exist. <Link to={to.dashboard()}>Go to the overview</Link>
          </p>
        </Notice>
      );
  }
}

const TITLES: Record<Route["view"], string> = {
  dashboard: "Overview", graph: "Graph", record: "Record", jobs: "Jobs", job: "Job", datasets: "Datasets",
  dataset: "Dataset", run: "Run", alerts: "Alerts", unknown: "Not found",
};

const NAVIGATION: readonly { to: string; icon: IconName; label: string; views: Route["view"][] }[] = [
  { to: to.dashboard(), icon: "dashboard", label: "Overview", views: ["dashboard"] },
  { to: to.graph(), icon: "graph", label: "Graph", views: ["graph"] },
  { to: to.record(null), icon: "record", label: "Record", views: ["record"] },
  { to: to.jobs(), icon: "job", label: "Jobs", views: ["jobs", "job", "run"] },
  { to: to.datasets(), icon: "dataset", label: "Datasets", views: ["datasets", "dataset"] },
  { to: to.alerts(), icon: "alert", label: "Alerts", views: ["alerts"] },
];

export function App(): ReactNode {
  const { route, path } = useAddress();
  const alerts = useResource<Alerts>("/alerts");
  const firing = alerts.state === "ready" ? countOf(alerts.data, "firing") : 0;
  const title = visible(titleOf(route));
  useEffect(() => {
    document.title = `${firing ? `(${firing}) ` : ""}${title} · Headwater`;
  }, [title, firing]);
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="top">
        <Link to={to.dashboard()} className="brand" aria-label="Headwater, overview">
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <path d="M4 8c6 0 6 8 12 8M4 24c6 0 6-8 12-8m0 0h12" />
          </svg>
          <span>Headwater</span>
        </Link>
        <nav aria-label="Views">
          {NAVIGATION.map((entry) => (
            <Link key={entry.to} to={entry.to} aria-current={entry.views.includes(route.view) ? "page" : undefined}>
              <Icon name={entry.icon} />
              <span>{entry.label}</span>
              {entry.label === "Alerts" && firing > 0 && (
                <b className="count">
                  {firing}
                  <span className="hidden"> firing</span>
                </b>
              )}
            </Link>
          ))}
        </nav>
        <Search />
        <ThemeSwitch />
      </header>
      <main id="main" tabIndex={-1} data-view={route.view}>
        <ErrorBoundary key={path}>
          <Suspense fallback={<Loading what={title} rows={6} />}>{view(route)}</Suspense>
        </ErrorBoundary>
      </main>
    </>
  );
}

function titleOf(route: Route): string {
  switch (route.view) {
    case "record":
      return route.text || TITLES.record;
    case "job":
    case "dataset":
      return `${route.name.slice(0, 80)} · ${TITLES[route.view]}`;
    case "run":
      return `Run ${route.id.slice(0, 8)}`;
    default:
      return TITLES[route.view];
  }
}

/** An error in a view leaves the layout and the navigation working. */
class ErrorBoundary extends Component<{ children: ReactNode }, { failed: Error | null }> {
  override state: { failed: Error | null } = { failed: null };

  static getDerivedStateFromError(failed: Error): { failed: Error } {
    return { failed };
  }

  override render(): ReactNode {
    if (!this.state.failed) return this.props.children;
    return (
      <Notice icon="alert" title="This view can't be shown" tone="bad">
        <p>{visible(this.state.failed.message)}</p>
        <button type="button" className="button" onClick={() => location.reload()}>
          Reload
        </button>
      </Notice>
    );
  }
}
