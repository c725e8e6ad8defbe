package dev.headwater;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.rest.CatalogHandlers;
import org.apache.iceberg.rest.RESTCatalogProperties.SnapshotMode;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.RESTUtil;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.JsonAutoDetect;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.PropertyAccessor;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.PropertyNamingStrategies;

/**
 * An Iceberg REST catalog on loopback for tests: HTTP around the handlers that Iceberg itself ships
 * for servers, with tables in a folder. Prints its port; ends when its standard input is closed.
 */
public final class IcebergRestService {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String TOKEN = "Bearer for-tests";

  private final HadoopCatalog catalog;

  private IcebergRestService(String warehouse) {
    catalog = new HadoopCatalog(new Configuration(), warehouse);
  }

  public static void main(String[] arguments) throws Exception {
    JSON.setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY);
    JSON.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    JSON.setPropertyNamingStrategy(new PropertyNamingStrategies.KebabCaseStrategy());
    RESTSerializers.registerAll(JSON);
    IcebergRestService service = new IcebergRestService(arguments[0]);
    HttpServer server =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 16);
    server.createContext("/v1/", service::answer);
    server.start();
    System.out.println(server.getAddress().getPort());
    while (System.in.read() >= 0) {}
    server.stop(0);
  }

  private void answer(HttpExchange exchange) throws IOException {
    try (exchange) {
      Object answer;
      int status = 200;
      try {
        answer =
            TOKEN.equals(exchange.getRequestHeaders().getFirst("Authorization"))
                ? handle(exchange)
                : error(status = 401, new SecurityException("not the token"));
      } catch (NoSuchTableException | NoSuchNamespaceException error) {
        answer = error(status = 404, error);
      } catch (AlreadyExistsException | CommitFailedException error) {
        answer = error(status = 409, error);
      } catch (RuntimeException error) {
        answer = error(status = 500, error);
      }
      byte[] body = answer == null ? new byte[0] : JSON.writeValueAsBytes(answer);
      boolean empty = body.length == 0 || exchange.getRequestMethod().equals("HEAD");
      exchange.getResponseHeaders().set("Content-Type", "application/json");
      exchange.sendResponseHeaders(answer == null ? 204 : status, empty ? -1 : body.length);
      if (!empty) {
        exchange.getResponseBody().write(body);
      }
    }
  }

  private Object handle(HttpExchange exchange) throws IOException {
    String method = exchange.getRequestMethod();
    String[] path = exchange.getRequestURI().getRawPath().substring("/v1/".length()).split("/");
    if (path[0].equals("config")) {
      return ConfigResponse.builder().build();
    }
    if (path.length == 1) {
      return method.equals("POST")
          ? create(read(exchange, CreateNamespaceRequest.class).namespace())
          : CatalogHandlers.listNamespaces(catalog, Namespace.empty());
    }
    Namespace namespace = RESTUtil.decodeNamespace(path[1], "%1F");
    if (path.length == 2) {
      return CatalogHandlers.loadNamespace(catalog, namespace);
    }
    if (path.length == 3) {
      return method.equals("POST")
          ? create(namespace, read(exchange, CreateTableRequest.class))
          : CatalogHandlers.listTables(catalog, namespace);
    }
    TableIdentifier table = TableIdentifier.of(namespace, RESTUtil.decodeString(path[3]));
    switch (path.length == 4 ? method : "metrics") {
      case "GET":
      case "HEAD":
        return CatalogHandlers.loadTable(catalog, table, SnapshotMode.ALL);
      case "POST":
        return CatalogHandlers.updateTable(
            catalog, table, read(exchange, UpdateTableRequest.class));
      case "DELETE":
        CatalogHandlers.purgeTable(catalog, table);
        return null;
      default:
        return null;
    }
  }

  /** Without properties: a folder can't store them. */
  private Object create(Namespace namespace) {
    return CatalogHandlers.createNamespace(
        catalog, CreateNamespaceRequest.builder().withNamespace(namespace).build());
  }

  private Object create(Namespace namespace, CreateTableRequest request) {
    return request.stageCreate()
        ? CatalogHandlers.stageTableCreate(catalog, namespace, request)
        : CatalogHandlers.createTable(catalog, namespace, request);
  }

  private static <T> T read(HttpExchange exchange, Class<T> kind) throws IOException {
    return JSON.readValue(exchange.getRequestBody(), kind);
  }

  private static Object error(int status, RuntimeException error) {
    return ErrorResponse.builder()
        .responseCode(status)
        .withType(error.getClass().getSimpleName())
        .withMessage(String.valueOf(error.getMessage()))
        .build();
  }
}
