import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App.tsx";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/canvas.css";
import "./styles/views.css";

const page = document.getElementById("page");
if (page) {
  createRoot(page).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
