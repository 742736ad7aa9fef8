//! Limits specialisation to some arguments.

use mneme_model::configuration::{Configuration, Specialize};
use serde_json::{Value, json};

use super::{Constraints, Parameter, Point, Rejection, SearchSpace};

/// A space of any kind, in which specialisation folds these arguments instead of all.
pub struct Folding {
    inner: Box<dyn SearchSpace>,
    folded: Specialize,
}

impl Folding {
    pub fn new(inner: Box<dyn SearchSpace>, folded: Specialize) -> Self {
        Self { inner, folded }
    }

    fn folding(&self, mut configuration: Configuration) -> Configuration {
        if configuration.specialize == Specialize::All {
            configuration.specialize = self.folded.clone();
        }
        configuration
    }
}

impl SearchSpace for Folding {
    fn parameters(&self) -> &[Parameter] {
        self.inner.parameters()
    }

    fn is_active(&self, parameter: &Parameter, point: &Point) -> bool {
        self.inner.is_active(parameter, point)
    }

    fn constraints(&self) -> Option<Box<dyn Constraints + '_>> {
        self.inner.constraints()
    }

    fn ground(&self, point: &Point) -> Result<Configuration, Rejection> {
        Ok(self.folding(self.inner.ground(point)?))
    }

    fn baseline(&self) -> Configuration {
        self.folding(self.inner.baseline())
    }

    fn size(&self) -> Option<u64> {
        self.inner.size()
    }

    fn edges(&self, point: &Point, configuration: &Configuration) -> Vec<String> {
        self.inner.edges(point, configuration)
    }

    fn label(&self, point: &Point, configuration: &Configuration) -> String {
        self.inner.label(point, configuration)
    }

    fn describe(&self) -> Value {
        let mut described = self.inner.describe();
        described["specialize_arguments"] = json!(self.folded);
        described
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::walk::walk;
    use crate::space::{PresetOptions, PresetSpace, Recorded};
    use mneme_model::launch::Dim3;

    #[test]
    fn only_what_is_meant_is_folded() {
        let (grid, block) = (Dim3::new(8, 1, 1), Dim3::new(64, 1, 1));
        let recorded = Recorded { grid, block, shared_mem: 0, compiled: None, processor: None };
        let options = PresetOptions { specialize: vec![false, true], ..PresetOptions::default() };
        let space = || Box::new(PresetSpace::new(&options, recorded.clone()));
        let common = Folding::new(space(), Specialize::Arguments(vec![0, 2]));
        let mut seen = Vec::new();
        for point in walk(&common) {
            let (own, inner) = (common.ground(&point).unwrap(), space().ground(&point).unwrap());
            assert_eq!(Configuration { specialize: inner.specialize.clone(), ..own.clone() }, inner);
            seen.push(own.specialize);
        }
        assert!(seen.contains(&Specialize::None) && seen.contains(&Specialize::Arguments(vec![0, 2])), "{seen:?}");
        assert!(!seen.contains(&Specialize::All));
        assert_eq!(common.describe()["specialize_arguments"], json!([0, 2]));
    }
}
